//! One file, used from other places: mounts, namespaces, users, and a file that is gone.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Background, Ended, PROGRAM, Place, ended};

const NOBODY: u32 = 65534;

/// As after `docker exec`: session and process group have the number 0, their leader is outside.
const IN_A_CONTAINER: [&str; 3] = ["--pid", "--fork", "--mount-proc"];

/// A process that holds `x` on the file store of this place, until the end.
fn held() -> (Place, Background) {
    let place = Place::on_file();
    let holder = place.holder("x", &[]);
    (place, holder)
}

/// A shell script in its own namespaces; `None` if this user may not make them.
fn unshared(place: &Place, namespaces: &[&str], script: &str) -> Option<Ended> {
    let within = |script: &str| {
        let arguments = [namespaces, &["sh", "-ec", script]].concat();
        ended(place.program("unshare", &arguments))
    };
    let tried = within("true");
    if tried.code != Some(0) {
        println!("left out: unshare {namespaces:?} is not allowed here: {}", tried.stderr);
        return None;
    }
    Some(within(script))
}

/// `leasehold run x --no-wait` in its own namespaces, after some shell commands there; `None` if
/// this user may not make them.
fn elsewhere(place: &Place, namespaces: &[&str], steps: &str, database: &str) -> Option<Ended> {
    let run = format!("exec {PROGRAM} run x --no-wait --store file:{database} -- true");
    unshared(place, namespaces, &format!("{steps}\n{run}"))
}

#[test]
fn a_file_that_is_mounted_alone_is_refused() {
    let (place, _holder) = held();
    let steps = "touch other.db; mount --bind locks.db other.db";
    let Some(refused) = elsewhere(&place, &["--mount"], steps, "other.db") else { return };
    refused.assert_failed(2, "mount the directory");
    assert!(!place.path("other.db.clients").exists(), "nothing is left at the other path");
}

#[test]
fn a_directory_that_is_mounted_elsewhere_has_the_same_locks() {
    let (place, mut holder) = held();
    let steps = "mkdir -p /mnt; mount --bind . /mnt";
    let other = || elsewhere(&place, &["--mount"], steps, "/mnt/locks.db");
    let Some(busy) = other() else { return };
    assert_eq!(busy.code, Some(75), "{busy:?}");
    holder.close_stdin();
    assert_eq!(holder.end().code, Some(0));
    assert_eq!(other().and_then(|free| free.code), Some(0));
}

#[test]
fn another_pid_namespace_has_the_same_locks() {
    let (place, _holder) = held();
    let other = elsewhere(&place, &["--pid", "--fork"], "", "locks.db");
    let Some(busy) = other else { return };
    assert_eq!(busy.code, Some(75), "{busy:?}");
}

#[test]
fn ctrl_z_in_a_pid_namespace_that_does_not_show_the_session_stops_nothing() {
    let place = Place::on_file();
    let wait = "touch runs; until [ -e continued ]; do sleep 0.01; done";
    let command = format!("trap 'touch continued' CONT; {wait}");
    let script = format!(
        "{PROGRAM} run x -- bash -c \"{command}\" &
        until [ -e runs ]; do sleep 0.01; done
        kill -TSTP $!; wait $!"
    );
    let Some(ended) = unshared(&place, &IN_A_CONTAINER, &script) else { return };
    ended.assert_silent(0);
}

#[test]
fn what_ignores_a_term_is_killed_in_a_pid_namespace_that_does_not_show_the_session() {
    let place = Place::on_file();
    let run = format!("exec {PROGRAM} run x --max-hold 300ms --kill-after 100ms");
    let script = format!("{run} -- sh -c \"trap '' TERM; while :; do sleep 0.01; done\"");
    let Some(ended) = unshared(&place, &IN_A_CONTAINER, &script) else { return };
    ended.assert_failed(76, "--max-hold 300ms is over");
    assert_eq!(place.token("x"), None);
}

#[test]
fn another_time_namespace_is_refused_while_the_file_is_in_use() {
    let (place, mut holder) = held();
    let namespaces = ["--time", "--boottime", "100000", "--fork"];
    let Some(refused) = elsewhere(&place, &namespaces, "", "locks.db") else { return };
    refused.assert_failed(2, "time namespace");
    // In another time namespace without an offset, the clock is the same.
    let same = elsewhere(&place, &["--time", "--fork"], "", "locks.db");
    assert_eq!(same.and_then(|same| same.code), Some(75));
    holder.close_stdin();
    holder.end();
    let alone = elsewhere(&place, &namespaces, "", "locks.db");
    assert_eq!(alone.and_then(|alone| alone.code), Some(0));
}

#[test]
fn two_users_who_share_a_directory_have_the_same_locks() {
    let place = Place::on_file();
    if chown(place.directory.path(), Some(NOBODY), Some(NOBODY)).is_err() {
        println!("left out: only root can act for two users");
        return;
    }
    let user = format!("--reuid={NOBODY}");
    let run = [&user, "--clear-groups", "sh", "-c", "echo held; exec cat"];
    let run = [&run[..2], &[PROGRAM, "run", "x", "--quiet", "--"], &run[2..]].concat();
    let tried = ended(place.program("setpriv", &[&run[..2], &[PROGRAM, "--version"]].concat()));
    if tried.code != Some(0) {
        println!("left out: another user cannot run it here: {}", tried.stderr);
        return;
    }
    let mut holder = Background::fed(place.program("setpriv", &run));
    assert_eq!(holder.line(), "held");
    let busy = place.end(&["run", "x", "--no-wait", "--", "true"]);
    assert_eq!(busy.code, Some(75), "{busy:?}");
    holder.close_stdin();
    assert_eq!(holder.end().code, Some(0));
    place.end(&["run", "x", "--no-wait", "--", "true"]).assert_silent(0);
}

/// A group, and two users in it, each with another main group.
const GROUP: u32 = 60_100;
const USERS: [u32; 2] = [60_101, 60_102];

/// A program of a user whose umask lets nobody else in.
fn of_user(place: &Place, user: u32, arguments: &[&str]) -> Command {
    let [user, group, groups] =
        [format!("--reuid={user}"), format!("--regid={user}"), format!("--groups={GROUP}")];
    let private = ["sh", "-c", "umask 077; exec \"$@\"", "sh"];
    let user = [&[user.as_str(), group.as_str(), groups.as_str()], &private[..]].concat();
    place.program("setpriv", &[&user[..], arguments].concat())
}

/// A file store that root may make for others; `None` if the test cannot act as other users.
fn for_users() -> Option<Place> {
    let place = Place::on_file();
    let allow = |mode| fs::set_permissions(place.directory.path(), Permissions::from_mode(mode));
    allow(0o755).unwrap();
    let tried = ended(of_user(&place, USERS[0], &[PROGRAM, "--version"]));
    if tried.code != Some(0) {
        println!("left out: other users cannot run it here: {}", tried.stderr);
        return None;
    }
    Some(place)
}

#[test]
fn users_of_a_group_exclude_each_other_and_notice_each_others_deaths() {
    let Some(place) = for_users() else { return };
    let make = "install -d -g 60100 -m 2770 shared; install -m 660 /dev/null shared/locks.db";
    assert_eq!(ended(place.program("sh", &["-ec", make])).code, Some(0));
    let url = format!("file:{}", place.path("shared/locks.db").display());
    let run = |user, arguments: &[&str], script| {
        let run = [PROGRAM, "run", "x", "--ttl", "1h", "-q", "-s", &url];
        of_user(&place, user, &[&run[..], arguments, &["--", "sh", "-c", script]].concat())
    };
    let [one, other] = USERS;
    // The first user makes the files beside the database. Root may always open them, and makes its
    // own files, too.
    for (holder, waiter) in [(one, other), (other, one), (0, other), (one, 0)] {
        let mut holding = Background::fed(run(holder, &[], "echo held; exec cat"));
        assert_eq!(holding.line(), "held");
        let busy = ended(run(waiter, &["--no-wait"], "true"));
        assert_eq!(busy.code, Some(75), "{waiter} beside {holder}: {busy:?}");
        // The lease would last for an hour: the next holder gets in only because of the death.
        let mut next = Background::start(run(waiter, &[], "echo next"));
        holding.signal(Signal::KILL);
        assert_eq!(next.line(), "next", "{waiter} after {holder}");
        next.end().assert_silent(0);
    }
    for entry in fs::read_dir(place.path("shared")).unwrap() {
        let (path, found) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        let mode = if found.is_dir() { 0o2770 } else { 0o660 };
        assert_eq!((found.mode() & 0o7777, found.gid()), (mode, GROUP), "{}", path.display());
    }
}

#[test]
fn users_of_a_group_may_be_the_first_ones_together() {
    let Some(place) = for_users() else { return };
    for round in 0..15 {
        let make = "install -d -g 60100 -m 2770 $0; install -g 60100 -m 660 /dev/null $0/locks.db";
        let directory = format!("shared-{round}");
        assert_eq!(ended(place.program("sh", &["-ec", make, &directory])).code, Some(0));
        let url = format!("file:{}/locks.db", place.path(&directory).display());
        let run = [PROGRAM, "run", "x", "-q", "-s", &url, "--", "true"];
        let of = |user| Background::start(of_user(&place, user, &run));
        let all: Vec<_> = (0..6).map(|number| of(USERS[0] + number)).collect();
        all.into_iter().for_each(|one| one.end().assert_silent(0));
        let left = fs::read_dir(place.path(&directory)).unwrap().count();
        assert_eq!(left, 4, "the database, its log and shared memory, and the directory");
    }
}

#[test]
fn who_may_not_use_what_is_beside_a_store_is_told_what_mends_it() {
    let Some(place) = for_users() else { return };
    let run = ["run", "x", "-q", "--", "true"];
    place.end(&run).assert_silent(0);
    let with_program = [&[PROGRAM], &run[..]].concat();
    let denied = ended(of_user(&place, USERS[0], &with_program));
    denied.assert_failed(69, "locks.db.clients beside it");
    let remedies = denied.stderr.split('`').skip(1).step_by(2);
    for remedy in remedies.map(|remedy| remedy.replace("GROUP", &GROUP.to_string())) {
        assert_eq!(ended(place.program("sh", &["-c", &remedy])).code, Some(0), "{remedy}");
    }
    for user in USERS {
        ended(of_user(&place, user, &with_program)).assert_silent(0);
    }
    place.end(&run).assert_silent(0);
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let Some(place) = for_users() else { return };
    let list = |url: &str| ended(of_user(&place, USERS[0], &[PROGRAM, "ls", "-s", url]));
    for path in ["/etc/passwd", "/etc/shadow"] {
        let refused = list(&format!("file:{path}"));
        refused.assert_failed(69, &format!("file:{path}: cannot use it (Permission denied"));
    }
    fs::write(place.path("notes"), "this is not a database, and long enough to be none").unwrap();
    place.end(&["ls", "-s", "file:notes"]).assert_failed(69, "is not a database: name another");
    assert!(!place.path("notes.clients").exists());
    place.end(&["ls", "-s", "file:/etc/passwd"]).assert_failed(69, "name another path");
    assert!(!fs::exists("/etc/passwd.clients").unwrap());
}

#[test]
fn a_command_whose_store_is_removed_in_use_is_ended_and_nobody_begins_anew_before() {
    let place = Place::on_file();
    let mut holder = place.holder("x", &["--ttl", "3s"]);
    for file in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::remove_file(place.path(file)).unwrap();
    }
    fs::remove_dir_all(place.path("locks.db.clients")).unwrap();
    let begin = || place.end(&["run", "x", "--no-wait", "--", "true"]);
    begin().assert_failed(69, "removed or replaced while it is in use");
    // Its stdin stays open, so nothing but the loss ends it.
    let stdin = holder.child().stdin.take();
    assert_eq!(holder.end().code, Some(76));
    drop(stdin);
    begin().assert_silent(0);
}

#[test]
fn a_command_that_has_ended_leaves_no_pipe_beside_the_file() {
    let place = Place::on_file();
    for _ in 0..5 {
        place.end(&["run", "x", "--", "true"]).assert_silent(0);
        place.end(&["run", "a", "b", "--", "true"]).assert_silent(0);
        place.end(&["ls", "-q"]).assert_silent(0);
    }
    let left = fs::read_dir(place.path("locks.db.clients")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["gate"], "what belongs to the store");
}
