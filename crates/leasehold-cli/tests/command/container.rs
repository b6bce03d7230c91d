//! The program in a root with only `/dev/null`, as in an image `FROM scratch`. It is a foreign
//! user, read-only, without HOME, a temporary directory or `/proc`, and the first of all processes.
//!
//! No engine is needed for that: `unshare`, `mount` and `chroot` make what an engine would.
//! `LEASEHOLD_STATIC` names a static program, as `cargo xtask dist` builds it; the one of these
//! tests has its libraries beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leasehold_testkit::RedisServer;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Background, Ended, PROGRAM, ended, until};

/// A user that nobody on this machine has, and that owns no file here.
const USER: &str = "65532:65532";

/// The only writable directory, as if it were mounted.
const RUN: &str = "run";

/// In a mount namespace, and with a `/proc` unless $2 is `none`: the root $1 is read-only except
/// `/run`, and the environment has only what this script sets.
const WITHIN: &str = r#"
root=$1 proc=$2 user=$3 store=$4; shift 4
mount --bind "$root" "$root" && mount --bind "$root/run" "$root/run" &&
    mount --bind /dev/null "$root/dev/null" && mount -o remount,ro,bind "$root" || exit 99
[ "$proc" = none ] || mount -t proc proc "$root/proc" || exit 98
exec env -i "LEASEHOLD_STORE=$store" XDG_RUNTIME_DIR=/run POD_NAME=pod-7 \
    "$(command -v chroot)" "--userspec=$user" "$root" /leasehold "$@"
"#;

/// A root with the program, and with its store.
struct Image {
    root: TempDir,
    store: String,
}

impl Image {
    fn new(store: String) -> Self {
        let root = tempfile::tempdir().unwrap();
        let image = Self { root, store };
        let program = std::env::var_os("LEASEHOLD_STATIC").unwrap_or_else(|| PROGRAM.into());
        let mut libraries = Command::new("ldd");
        libraries.arg(&program);
        let libraries = ended(libraries).stdout;
        for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            image.copy(Path::new(library), &library[1..]);
        }
        image.copy(Path::new(&program), "leasehold");
        for directory in [RUN, "dev", "proc"] {
            fs::create_dir(image.path(directory)).unwrap();
        }
        fs::write(image.path("dev/null"), "").unwrap();
        for (directory, mode) in [("", 0o755), (RUN, 0o777)] {
            fs::set_permissions(image.path(directory), fs::Permissions::from_mode(mode)).unwrap();
        }
        image
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn copy(&self, file: &Path, name: &str) {
        let to = self.path(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }

    /// The program in its own namespaces.
    fn command(&self, namespaces: &[&str], proc: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.arg("--mount").args(namespaces).args(["sh", "-c", WITHIN, "sh"]);
        command.arg(self.root.path()).args([proc, USER, &self.store]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The program as the first process there is.
    fn first(&self, proc: &str, arguments: &[&str]) -> Command {
        self.command(&["--pid", "--fork", "--kill-child"], proc, arguments)
    }

    /// A process that is not the first: others outlive it.
    fn beside(&self, arguments: &[&str]) -> Ended {
        ended(self.command(&[], "none", arguments))
    }
}

/// Sends the signal with which an engine ends a container to its first process.
fn stop(container: &Background) {
    let first = *crate::harness::children(container.pid()).first().unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::TERM).unwrap();
}

/// Whether roots can be made here; says so if not.
fn is_possible() -> bool {
    let tried = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output();
    let is_possible = tried.is_ok_and(|tried| tried.status.success());
    if !is_possible {
        println!("left out: another root directory: only root can make one");
    }
    is_possible
}

#[test]
fn in_an_empty_root_a_command_runs_under_a_lock_with_and_without_proc() {
    let server = RedisServer::start().unwrap();
    if !is_possible() {
        return;
    }
    let image = Image::new(server.url());
    let works = ["run", "job", "--", "/leasehold", "elect", "scheduler", "--listen"];
    for proc in ["none", "proc"] {
        let runs = Background::start(image.first(proc, &works));
        let holder = || {
            let shown: Option<Value> = image.beside(&["show", "job", "--json"]).stdout.parse().ok();
            shown.and_then(|all| all.pointer("/holders/0").cloned()).unwrap_or_default()
        };
        until("the store knows the holder's label", || holder()["label"].is_string());
        let holder = holder();
        assert_eq!(holder["pid"], 1, "{proc}: {holder:#}");
        assert!(holder["label"].as_str().unwrap().contains("pod-7"), "{proc}: {holder:#}");
        stop(&runs);
        runs.end().assert_ended(143);
        // The holder of the lock has released it.
        ended(image.first(proc, &["show", "job"])).assert_ended(1);
    }
}

#[test]
fn in_an_empty_root_a_candidate_leads_says_so_in_a_file_and_ends_with_its_container() {
    let server = RedisServer::start().unwrap();
    if !is_possible() {
        return;
    }
    let image = Image::new(server.url());
    let stands = ["elect", "scheduler", "--value", "pod-7", "--ready-file", "/run/ready"];
    let works = ["--", "/leasehold", "elect", "scheduler", "--listen"];
    let mut leader = Background::start(image.first("proc", &[&stands[..], &works].concat()));
    assert!(leader.line().contains("pod-7 leads"));
    let ready = || fs::read_to_string(image.path("run/ready")).unwrap_or_default();
    assert_eq!(ready(), "leads\n");
    stop(&leader);
    until("the file is gone", || ready().is_empty());
    leader.end().assert_ended(143);
    ended(image.first("none", &["elect", "scheduler", "--show"])).assert_ended(1);
}

#[test]
fn in_an_empty_root_a_lease_is_taken_by_one_command_and_given_back_by_another() {
    let server = RedisServer::start().unwrap();
    if !is_possible() {
        return;
    }
    let image = Image::new(server.url());
    let taken = image.beside(&["take", "freeze", "--for", "1h", "--log", "/run/log"]);
    taken.assert_silent(0);
    image.beside(&["show", "freeze"]).assert_ended(0);
    image.beside(&["give", taken.stdout.trim_end()]).assert_ended(0);
    image.beside(&["show", "freeze"]).assert_ended(1);
    // If no directory is writable, the message names the remedy.
    fs::set_permissions(image.path(RUN), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(image.path("run/leasehold")).unwrap();
    let refused = image.beside(&["take", "freeze", "--for", "1h", "--log", "/run/log"]);
    assert!(refused.stderr.contains("set XDG_RUNTIME_DIR to a directory"), "{refused:?}");
    assert_ne!(refused.code, Some(0));
}

#[test]
fn in_an_empty_root_tls_trusts_the_authorities_of_the_image_and_nobody_without_them() {
    let server = RedisServer::options().tls(false).start().unwrap();
    if !is_possible() {
        return;
    }
    let image = Image::new(server.url());
    assert!(server.url().starts_with("rediss://"));
    let run = ["run", "job", "-n", "--", "/leasehold", "where"];
    let refused = ended(image.first("none", &run));
    assert_eq!(refused.code, Some(69), "{refused:?}");
    image.copy(&server.certificates().unwrap().authority, "etc/ssl/certs/ca-certificates.crt");
    ended(image.first("none", &run)).assert_silent(0);
}
