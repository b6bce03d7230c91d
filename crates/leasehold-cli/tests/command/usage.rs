//! Bad input: one clear line for each mistake, before anything is sent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Background, Ended, PROGRAM, Place, ended};

#[test]
fn what_is_wrong_on_the_command_line_is_said_in_one_line() {
    let mut place = Place::on_file();
    // No server listens there: a request would fail with another message.
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
        ("x", &["--min-hold", "90000s"], "'90000s' for '--min-hold"),
        ("x", &["--once-per", "367d"], "'367d' for '--once-per"),
        ("x", &["-w", "soon"], "is not a duration"),
        ("x", &["--kill-after", "16s"], "half of the ttl"),
        ("x", &["--max-hold", "0s"], "'0s' for '--max-hold"),
        ("x", &["--at-most", "1s", "--max-hold", "1s"], "cannot be used multiple times"),
        ("x", &["--permits", "2/1"], "2 permits of 1"),
        ("x", &["--permits", "1"], "K/N"),
        ("x", &["--permits", "1/4000000000000"], "too many: give at most 2147483646"),
        ("x", &["--permits", "1/2", "--shared"], "cannot be used with"),
        ("x", &["-n", "-w", "1s"], "cannot be used with"),
        ("x", &["-E", "256"], "256"),
        ("x", &["--on-lost", "shrug"], "shrug"),
        ("x", &["--label", "a\u{7}"], "control character"),
        ("x", &["-s", "memory"], "nobody else would see"),
        ("x", &["-s", ""], "names no store"),
        ("x", &["-s", "mysql://h/"], "mysql"),
        ("x", &["-s", "redis://h:port/"], "port"),
        ("x", &["-s", "redis://h/?option=1"], "--store: the store URL has the unknown option"),
        ("x", &["--timeout", "5s"], "no option --timeout: `--wait` limits the wait"),
    ] {
        run(name, options).assert_failed(2, words);
    }
    run("x", &["-q", "--wiat", "1s"]).assert_failed(2, "--wait");
    place.end(&["run"]).assert_failed(2, "see `leasehold run --help`");
    place.end(&["run", "x"]).assert_failed(2, "<CMD>");
    place.end(&["run", "x", "true"]).assert_failed(2, "write `--` before");
    place.end(&["revoke", "x"]).assert_failed(2, "TOKEN|HOLDER");
    place.end(&["revoke", "x", "7x-1"]).assert_failed(2, "32 hex digits");
    place.end(&["revoke", "x", "7x"]).assert_failed(2, "not a fencing token");
    place.end(&["frobnicate"]).assert_failed(2, "frobnicate");
    place.end(&["rn", "x"]).assert_failed(2, "see `leasehold --help`");
    place.end(&["run", "x", "--wiat", "1s"]).assert_failed(2, "found; tip: ");
    let strange = place.end(&["elect", "x", "--label", "y"]);
    strange.assert_failed(2, "elect has no option --label");
    assert!(!strange.stderr.contains("as a value"), "behind -- is a command: {strange:?}");
    let nothing = place.end(&[]);
    nothing.assert_silent(2);
    assert_eq!(nothing.stdout, place.end(&["--help"]).stdout);
}

#[test]
fn the_help_of_each_command_begins_with_what_the_list_of_commands_says() {
    let place = Place::on_file();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = place.end(&["--help"]).stdout;
    let (_, list) = help.split_once("Commands:\n  ").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let rows = list.replace("\n   ", "").replace("\n  ", "\n");
    for row in rows.lines() {
        let (command, described) = row.split_once(' ').unwrap();
        let help = place.end(&[command, "-h"]).stdout;
        assert_eq!(words(help.split("\n\n").next().unwrap()), words(described), "{command}");
    }
    assert!(rows.lines().count() > 15, "{rows}");
}

#[test]
fn a_reader_who_leaves_ends_the_command_without_a_word() {
    let place = Place::on_file();
    for command in ["man", "doctor", "where", "completions bash"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let words: Vec<&str> = command.split(' ').collect();
        let mut running = place.leasehold(&words);
        running.stdout(writer);
        let ended = Ended::of(running.spawn().unwrap().wait_with_output().unwrap());
        assert_eq!((ended.signal, ended.stderr.as_str()), (Some(13), ""), "{command}: {ended:?}");
    }
}

#[test]
fn that_the_store_is_local_is_said_where_it_is_used_and_where_nothing_is_found() {
    let place = Place::on_file();
    fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Root's default store is the machine's, which a test must not touch.
    let somebody: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid=65534", "--clear-groups", PROGRAM],
        false => &[PROGRAM],
    };
    let state = place.path("state");
    let without_store = |arguments: &[&str]| {
        let arguments = [&somebody[1..], arguments].concat();
        let mut command = place.program(somebody[0], &arguments);
        command.env_remove("LEASEHOLD_STORE").env("XDG_STATE_HOME", &state);
        command
    };
    let user = match rustix::process::geteuid().is_root() {
        true => "nobody".to_owned(),
        false => ended(place.program("id", &["-un"])).stdout.trim_end().to_owned(),
    };
    let local = format!("LEASEHOLD_STORE is not set: locks hold for {user} on this machine only");
    let local = local.as_str();
    for arguments in [&["ls"][..], &["show", "x"], &["elect", "x", "--show"]] {
        let stderr = ended(without_store(arguments)).stderr;
        assert!(stderr.contains(local), "{arguments:?}: {stderr}");
    }
    let mut holder = Background::fed(without_store(&["hold", "x"]));
    assert!(holder.error_line().contains(local));
    holder.line();
    for arguments in [&["ls"][..], &["show", "x"], &["where"], &["doctor"]] {
        ended(without_store(arguments)).assert_silent(0);
    }
}

#[test]
fn a_prefix_without_a_match_is_named() {
    let place = Place::on_file();
    place.end(&["ls"]).assert_failed(0, "no lock is held or awaited");
    place.end(&["ls", "a/"]).assert_failed(0, "no lock whose name begins with a/ is held");
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
fn a_limit_of_threads_or_descriptors_is_told_in_words() {
    let place = Place::on_redis();
    // Root has no limit of processes, so the test becomes another user.
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
    // The second run waits for the lease of a first run that could neither begin nor release.
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
