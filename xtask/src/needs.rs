//! What the suite needs beside cargo, installed where it is missing and may be installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::command::Run;
use crate::outcome::Outcome;

/// Asked by Debian's packages before they start a service; 101 says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The programs the tests start, as the testkit finds them.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// Packages, and the program of each, without which a test is left out.
const READERS: [(&str, &str); 5] = [
    ("fish", "fish"),
    ("man-db", "man"),
    ("mandoc", "mandoc"),
    ("prometheus", "promtool"),
    ("zsh", "zsh"),
];

/// The library of Debian's faketime, below the directory of this kind of machine.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

/// Makes sure that a Redis or Valkey server can be started.
pub(crate) fn redis_server() -> Outcome {
    let named = std::env::var("LEASEHOLD_TEST_SERVER").ok();
    let programs = named.as_deref().map_or(SERVERS.to_vec(), |program| vec![program]);
    installed("redis-server", || {
        programs.iter().any(|name| Run::program(name, &["--version"]).works())
    })
}

/// Makes sure that a server can be given a clock of its own.
pub(crate) fn faketime() -> Outcome {
    installed("faketime", || {
        let machines = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        machines.map(|machine| machine.path()).any(|machine| machine.join(FAKETIME).is_file())
    })
}

/// Makes sure that PostgreSQL can be started, as the testkit finds it.
pub(crate) fn postgresql() -> Outcome {
    installed("postgresql", || {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let is_there = versions.map(|version| version.path()).any(|version| {
            version.join("bin/postgres").is_file() // with all others beside it
        });
        is_there || Run::program("postgres", &["--version"]).works()
    })
}

/// Makes sure that static programs can be built for this kind of machine.
pub(crate) fn musl(target: &str) -> Outcome {
    installed("musl-tools", || Run::program("musl-gcc", &["--version"]).works())?;
    let words = ["target", "add", target];
    Run::program("rustup", &words).show()
}

/// Installs what some tests try if it is there: the shells that completions are for, what reads
/// manual pages, and what evaluates alerts. Gives a line for each that could not be had.
pub(crate) fn readers() -> Vec<String> {
    let wanted = READERS
        .into_iter()
        .map(|(package, program)| installed(package, || Run::program("which", &[program]).works()));
    wanted.filter_map(Result::err).collect()
}

/// Makes sure that there is a browser for the tests of the page of `leasehold serve`, and what
/// drives it.
pub(crate) fn browser() -> Outcome {
    installed("chromium", || Run::program("chromium", &["--version"]).works())?;
    installed("chromium-driver", || Run::program("chromedriver", &["--version"]).works())
}

/// Installs a package of Debian if it is not found and may be installed.
fn installed(package: &str, found: impl Fn() -> bool) -> Outcome {
    if found() {
        return Ok(());
    }
    let remedy = format!("{package} is missing: install it (`apt-get install {package}`)");
    if !is_root() || !Run::program("apt-get", &["--version"]).works() {
        return Err(remedy);
    }
    let _policy = NoServices::begin();
    let install = || {
        let arguments = ["install", "--yes", "--no-install-recommends", package];
        Run::program("apt-get", &arguments).with("DEBIAN_FRONTEND", "noninteractive").show()
    };
    if install().is_err() {
        Run::program("apt-get", &["update"]).show()?;
        install()?;
    }
    if found() { Ok(()) } else { Err(remedy) }
}

/// Makes sure that `cargo fmt` and `cargo clippy` exist.
pub(crate) fn components(root: &Path) -> Outcome {
    for (verb, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let found = || Run::cargo(root, &[verb, "--version"]).works();
        if !found() {
            let added = Run::program("rustup", &["component", "add", component]).show();
            if added.is_err() || !found() {
                let remedy = format!("rustup component add {component}");
                return Err(format!("`cargo {verb}` is missing: run `{remedy}`"));
            }
        }
    }
    Ok(())
}

/// Whether cargo-nextest is there; the plain runner does as well.
pub(crate) fn has_nextest(root: &Path) -> bool {
    Run::cargo(root, &["nextest", "--version"]).works()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The owner of our own entry in /proc is who we are; elsewhere nothing is installed anyway.
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// While it lives, installing a package starts no service: the suite leaves nothing running.
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
