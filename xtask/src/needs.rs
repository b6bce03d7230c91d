//! Installs what the suite needs besides cargo, if it is missing and this user may install it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::run::{Outcome, Run};

/// A program that Debian's packages ask before they start a service; exit code 101 says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// A package of Debian, and a shell command that succeeds if the package or a substitute is there.
type Need = (&'static str, &'static str);

/// Without these, the suite fails.
const REQUIRED: [Need; 5] = [
    ("redis-server", "${LEASEHOLD_TEST_SERVER:-redis-server} --version || valkey-server --version"),
    ("faketime", "ls /usr/lib/*/faketime/libfaketimeMT.so.1"),
    ("chromium", "chromium --version"),
    ("chromium-driver", "chromedriver --version"),
    ("python3-venv", "python3 -c 'import ensurepip'"), // Debian splits it from python3
];

/// Without these, some tests are left out, and a message names them.
const WANTED: [Need; 7] = [
    ("postgresql", "ls /usr/lib/postgresql/*/bin/postgres || postgres --version"),
    ("pgbouncer", "ls /usr/sbin/pgbouncer"),
    ("fish", "which fish"),
    ("man-db", "which man"),
    ("mandoc", "which mandoc"),
    ("prometheus", "which promtool"),
    ("zsh", "which zsh"),
];

/// Installs missing packages. Names those that could not be installed and are not required.
pub(crate) fn install() -> Outcome {
    let is_missing = |(_, probe): &&Need| !Run::program("sh", &["-c", probe]).works();
    let missing: Vec<&str> =
        REQUIRED.iter().chain(&WANTED).filter(is_missing).map(|(package, _)| *package).collect();
    // The owner of our own entry in /proc is who we are; elsewhere nothing is installed anyway.
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !missing.is_empty() && is_root && Run::program("apt-get", &["--version"]).works() {
        let _policy = NoServices::begin();
        let words = [&["install", "--yes", "--no-install-recommends"], &missing[..]].concat();
        let apt = |words| Run::program("apt-get", words).with("DEBIAN_FRONTEND", "noninteractive");
        if apt(&words).show().is_err() && apt(&["update"]).show().is_ok() {
            apt(&words).show().ok();
        }
    }
    for (package, _) in WANTED.iter().filter(is_missing) {
        println!("left out: what needs {package}: install it (`apt-get install {package}`)");
    }
    match REQUIRED.iter().find(is_missing) {
        Some((package, _)) => {
            Err(format!("{package} is missing: install it (`apt-get install {package}`)"))
        }
        None => Ok(()),
    }
}

/// While this value lives, installing a package starts no service: the suite leaves nothing
/// running.
#[derive(Debug)]
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Self {
        let ours = !Path::new(POLICY).exists()
            && fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)).is_ok();
        Self { ours }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours && fs::remove_file(POLICY).is_err() {
            eprintln!("{POLICY} could not be removed: remove it by hand, or no service will start");
        }
    }
}
