//! Bad input: one clear line each, before anything is sent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{PROGRAM, Place, ended};

#[test]
fn what_is_wrong_on_the_command_line_is_said_in_one_line() {
    let mut place = Place::on_file();
    // Nobody is there: whatever is sent would fail differently.
    place.url = "redis://127.0.0.1:1/".to_owned();
    let long = "x".repeat(513);
    let run = |name: &str, options: &[&str]| {
        place.end(&[&["run", name], options, &["--", "true"]].concat())
    };
    for (name, options, words) in [
        ("", &[][..], "empty"),
        (&long, &[], "513 bytes"),
        ("a\nb", &[], "control character \\n"),
        ("x", &["--ttl", "99ms"], "ttl"),
        ("x", &["--ttl", "25h"], "ttl"),
        ("x", &["--ttl", "99h"], "'99h' for '--ttl"),
        ("x", &["--at-least", "90000s"], "'90000s' for '--at-least"),
        ("x", &["-w", "9223372036854775808s"], "is too long: give at most 36500d"),
        ("x", &["-w", "soon"], "is not a duration"),
        ("x", &["--kill-after", "16s"], "half of the ttl"),
        ("x", &["--max-hold", "0s"], "'0s' for '--max-hold"),
        ("x", &["--at-most", "0"], "'0' for '--at-most"),
        ("x", &["--at-most", "1s", "--max-hold", "1s"], "cannot be used with"),
        ("x", &["--permits", "2/1"], "2 permits of 1"),
        ("x", &["--permits", "1"], "K/N"),
        ("x", &["--permits", "1/4000000000000"], "too many: give at most 2147483646"),
        ("x", &["--permits", "1/2", "--shared"], "cannot be used with"),
        ("x", &["-n", "-w", "1s"], "cannot be used with"),
        ("x", &["-E", "256"], "256"),
        ("x", &["--on-lost", "shrug"], "shrug"),
        ("x", &["--label", "a\u{7}"], "control character"),
        ("x", &["--wiat", "1s"], "--wait"),
        ("x", &["-s", "memory:"], "memory:"),
        ("x", &["-s", ""], "names no store"),
        ("x", &["-s", "mysql://h/"], "mysql"),
        ("x", &["-s", "redis://h:port/"], "port"),
        ("x", &["-s", "redis://h/?option=1"], "option"),
    ] {
        run(name, options).assert_failed(2, words);
    }
    run("x", &["-q", "--wiat", "1s"]).assert_failed(2, "--wait");
    place.end(&["run", "x"]).assert_failed(2, "<CMD>");
    place.end(&["run", "x", "true"]).assert_failed(2, "write `--` before");
    place.end(&["revoke", "x"]).assert_failed(2, "--token");
    place.end(&["revoke", "x", "--token", "7x"]).assert_failed(2, "not a fencing token");
    place.end(&["frobnicate"]).assert_failed(2, "frobnicate");
    place.end(&[]).assert_failed(2, "subcommand");
}

#[test]
fn a_shell_makes_the_same_name_of_a_long_text_as_the_library() {
    let place = Place::on_file();
    let text = format!("https://example.org/{}", "reports/".repeat(100));
    place.end(&["run", &text, "--", "true"]).assert_failed(2, "sha256sum");
    let help = place.end(&["run", "--help"]).stdout;
    let recipe = help.lines().find(|line| line.contains("sha256sum")).unwrap().trim();
    let script = format!("text=$0; exec $1 run {recipe} -- sh -c 'echo $LEASEHOLD_NAME'");
    let run = ended(place.program("bash", &["-c", &script, &text, PROGRAM]));
    assert_eq!(run.stdout.trim(), leasehold::LockName::hashed(&text).as_str(), "{run:?}");
}

#[test]
fn a_store_that_cannot_be_used_is_69_with_its_reason() {
    let place = Place::on_file();
    let run = |url: &str| place.end(&["run", "x", "-n", "-s", url, "--", "true"]);
    run("redis://127.0.0.1:1/").assert_failed(69, "127.0.0.1:1");
    run("redis+unix:///nowhere/redis.sock").assert_failed(69, "/nowhere/redis.sock");
    fs::write(place.path("corrupt.db"), "this is not a database, and long enough to be none")
        .unwrap();
    run("file:corrupt.db").assert_failed(69, "name another path");
    assert!(!place.path("corrupt.db.clients").exists(), "nothing is made beside what is no store");
    run("file:/proc/locks.db").assert_failed(69, "/proc");
}

#[test]
fn a_file_store_in_a_read_only_directory_is_69() {
    let place = Place::on_file();
    if rustix::process::geteuid().is_root() {
        return; // root may write everywhere
    }
    let directory = place.path("read-only");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).unwrap();
    let url = format!("file:{}/locks.db", directory.display());
    place.end(&["run", "x", "-s", &url, "--", "true"]).assert_failed(69, "read-only");
}

#[test]
fn without_home_the_default_store_is_refused_and_others_are_not() {
    let place = Place::on_file();
    let mut command = place.leasehold(&["run", "x", "--", "true"]);
    ended({
        command.env_remove("HOME");
        command
    })
    .assert_silent(0);
    if rustix::process::geteuid().is_root() {
        return; // root's default store is not at home
    }
    let mut command = place.leasehold(&["run", "x", "--", "true"]);
    command.env_remove("HOME").env_remove("LEASEHOLD_STORE");
    ended(command).assert_failed(2, "HOME");
}

#[test]
fn a_limit_of_threads_or_descriptors_is_told_in_words() {
    let place = Place::on_redis();
    // Root is not limited in its processes, so it becomes somebody else.
    let somebody: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid=65534", "--clear-groups"],
        false => &["env"],
    };
    let limited = |limit: &str| {
        let name = limit.trim_start_matches('-');
        let run = ["prlimit", limit, PROGRAM, "run", name, "--", "true"];
        let mut command = place.program(somebody[0], &[&somebody[1..], &run[..]].concat());
        command.current_dir("/");
        ended(command)
    };
    // With fewer descriptors than these, tokio itself gives up.
    let threads = (1..8).map(|limit| format!("--nproc={limit}"));
    let descriptors = (8..20).map(|limit| format!("--nofile={limit}"));
    // The second one waits for the lease of a first one that could neither begin nor let go.
    for limit in threads.chain(descriptors).flat_map(|limit| [limit.clone(), limit]) {
        let limited = limited(&limit);
        assert!(!limited.stderr.contains("panicked"), "{limit}: {limited:?}");
        assert_ne!(limited.code, Some(101), "{limit}: {limited:?}");
        if limited.code == Some(126) {
            let name = limit.trim_start_matches('-');
            let is_told = limited.stderr.contains("could not let go, so the lease ends by itself");
            assert!(is_told || place.token(name).is_none(), "{limit}: {limited:?}");
        }
    }
}
