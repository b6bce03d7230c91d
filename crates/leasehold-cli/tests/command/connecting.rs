//! Connecting obeys the limits of the wait, and waits out trouble that passes by itself.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_testkit::{Data, RedisServer};
use rustix::process::Signal;

use crate::harness::{Background, PROGRAM, Place, ended, until};

on_each_store!(a_limit_of_zero_is_a_try);

fn a_limit_of_zero_is_a_try(place: &Place) {
    let within = |limit| place.end(&["run", "x", "--wait", limit, "--", "true"]);
    within("0s").assert_silent(0);
    let mut holder = place.holder("x", &[]);
    for limit in ["0", "1ms", "0.01s"] {
        within(limit).assert_failed(75, "x: still busy after");
    }
    holder.close_stdin();
    assert_eq!(holder.end().code, Some(0));
    within("1ms").assert_silent(0);
}

#[test]
fn a_store_that_is_away_at_the_start_is_waited_for_and_told_of_once() {
    let mut place = Place::on_redis();
    place.server.as_mut().unwrap().kill9().unwrap();
    for options in [&[][..], &["--wait", "50s"]] {
        let mut waiter = Background::start(place.shell("x", options, "echo runs"));
        let line = waiter.error_line();
        assert!(line.starts_with("leasehold: waits for the store: "), "{line}");
        assert!(line.contains("nothing listens there"), "{line}");
        place.server.as_mut().unwrap().restart(Data::Dropped).unwrap();
        assert_eq!(waiter.line(), "runs");
        waiter.end().assert_silent(0);
        place.server.as_mut().unwrap().kill9().unwrap();
    }
    place.end(&["run", "x", "-n", "--", "true"]).assert_failed(69, "nothing listens there");
    let late = place.end(&["run", "x", "--wait", "600ms", "--", "true"]);
    let lines: Vec<_> = late.stderr.lines().collect();
    assert_eq!((late.code, lines.len()), (Some(69), 2), "{late:?}");
    assert!(lines.iter().all(|line| line.contains("nothing listens there")), "{late:?}");
}

#[test]
fn a_server_that_is_a_replica_at_the_start_is_waited_for_until_it_is_promoted() {
    let place = Place::on_redis();
    let role = |words: &str| server(&place).command::<()>(&format!("REPLICAOF {words}")).unwrap();
    // A replica of nobody: a failover is under way, and no server has taken over yet.
    let demote = || role("127.0.0.1 1");
    let commands: [&[&str]; 4] = [
        &["run", "x", "--", "echo", "runs"],
        &["run", "x", "--wait", "50s", "--", "echo", "runs"],
        &["elect", "x", "--value", "me", "--", "echo", "runs"],
        &["hold", "x"],
    ];
    let promoted = |command: Command| {
        demote();
        let mut waiter = Background::fed(command);
        let line = waiter.error_line();
        assert!(line.starts_with("leasehold: waits for the store: "), "{line}");
        assert!(line.contains("the server is a replica"), "{line}");
        role("NO ONE");
        let line = waiter.line();
        waiter.close_stdin();
        waiter.end().assert_silent(0);
        line
    };
    for command in commands {
        let line = promoted(place.leasehold(command));
        assert!(line == "runs" || line.contains("token"), "{line}");
    }
    let log = place.path("log").display().to_string();
    let handle = promoted(place.leasehold(&["take", "x", "--for", "1h", "--log", &log]));
    assert!(place.token("x").is_some(), "it is taken: {handle}");
    place.end(&["give", &handle]).assert_silent(0);
    demote();
    let why = "the server is a replica: give the primary";
    place.end(&["run", "x", "-n", "--", "true"]).assert_failed(69, why);
    for command in [&["take", "x", "-n", "--for", "1m", "-q"][..], &["elect", "x", "--show"]] {
        place.end(command).assert_failed(69, why);
    }
    let late = place.end(&["run", "x", "--wait", "600ms", "--", "true"]);
    let lines: Vec<_> = late.stderr.lines().collect();
    assert_eq!((late.code, lines.len()), (Some(69), 2), "{late:?}");
    assert!(lines.iter().all(|line| line.contains(why)), "{late:?}");
}

#[test]
fn what_does_not_pass_by_itself_is_told_at_once_and_not_waited_for() {
    let server = RedisServer::options().password("secret").start().unwrap();
    let place = Place::on_file();
    let run = |url: &str| place.end(&["run", "x", "-s", url, "--", "true"]);
    let wrong = server.patient_url_as("default", "wrong");
    run(&wrong).assert_failed(69, "wrong user or password");
    let open = RedisServer::start().unwrap();
    let at = |database| format!("redis://127.0.0.1:{}/{database}", open.port());
    run(&at("77")).assert_failed(2, "no database of that number");
    run(&format!("{}&layout=plain&prefix=p:", open.patient_url())).assert_silent(0);
    let plain = format!("{}&layout=plain&prefix=p:", open.patient_url());
    let shared = ["run", "x", "--shared", "-s", &plain, "--", "true"];
    place.end(&shared).assert_failed(2, "layout=plain");
}

#[test]
fn a_holder_and_a_waiter_read_the_file_of_the_password_again() {
    let server = RedisServer::options().user("bob on >old ~* &* +@all").start().unwrap();
    let place = Place::at(format!("redis://bob@127.0.0.1:{}", server.port()));
    let write = |password: &str| std::fs::write(place.path("secret"), format!("{password}\n"));
    let run = |arguments: &[&str]| {
        let mut command = place.leasehold(arguments);
        command.env("LEASEHOLD_PASSWORD_FILE", "secret");
        command
    };
    write("old").unwrap();
    let script = ["-q", "--ttl", "3s", "--", "sh", "-c", "echo held; cat"];
    let mut holder = Background::fed(run(&[&["run", "x"], &script[..]].concat()));
    assert_eq!(holder.line(), "held");
    let waiter = Background::start(run(&["run", "x", "-q", "--", "true"]));
    until("it waits", || ended(run(&["show", "x", "--json"])).stdout.contains("\"waiting\":1"));
    let () = server.command("ACL SETUSER bob resetpass >new").unwrap();
    write("new").unwrap();
    let _: usize = server.command("CLIENT KILL USER bob").unwrap();
    let since = std::time::Instant::now();
    until("a lease that is not renewed has ended", || since.elapsed() > Duration::from_secs(4));
    holder.close_stdin();
    holder.end().assert_silent(0);
    waiter.end().assert_silent(0);
}

#[test]
fn a_password_may_come_from_a_pipe_of_the_shell() {
    let server = RedisServer::options().user("bob on >secret ~* &* +@all").start().unwrap();
    let place = Place::at(format!("redis://bob@127.0.0.1:{}", server.port()));
    let run = "LEASEHOLD_PASSWORD_FILE=<(echo secret) $0 run x -n -- true";
    ended(place.program("bash", &["-c", run, PROGRAM])).assert_silent(0);
    let take = "LEASEHOLD_PASSWORD_FILE=<(echo secret) $0 take x --for 1h";
    let taken = ended(place.program("bash", &["-c", take, PROGRAM]));
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let _: usize = server.command("CLIENT KILL USER bob").unwrap();
    let give = "LEASEHOLD_PASSWORD_FILE=<(echo secret) $0 give $1";
    let give = ["-c", give, PROGRAM, taken.stdout.trim()];
    ended(place.program("bash", &give)).assert_silent(0);
}

#[test]
fn a_tls_port_that_is_spoken_to_without_tls_is_told_of() {
    let place = Place::on_file();
    let server = RedisServer::options().tls(false).start().unwrap();
    let url = server.url().replace("rediss:", "redis:");
    let hint = "the server closed the connection at once: if this is a TLS port, use rediss://";
    place.end(&["run", "x", "-n", "-s", &url, "--", "true"]).assert_failed(69, hint);
    // It may be a proxy whose server is away, so leasehold waits for it.
    let mut waiter = Background::start(place.leasehold(&["run", "x", "-s", &url, "--", "true"]));
    let line = waiter.error_line();
    assert!(line.contains("waits for the store: ") && line.ends_with(hint), "{line}");
    waiter.signal(Signal::TERM);
    waiter.end().assert_failed(143, "SIGTERM while connecting");
}

#[test]
fn a_server_that_hangs_costs_no_more_than_the_wait_and_ctrl_c_ends_it() {
    // Without another limit, leasehold waits a minute for a server.
    let mut place = Place::on_redis();
    place.url = format!("redis://127.0.0.1:{}/?timeout=60s", server(&place).port());
    server(&place).stop().unwrap();
    for options in [&["-n"][..], &["--wait", "1s"]] {
        let arguments = [&["run", "x"], options, &["--", "true"]].concat();
        place.end(&arguments).assert_failed(69, "no answer within 2.0s\n");
    }
    for command in [&["run", "x", "--", "true"][..], &["hold", "x"]] {
        let waiter = Background::start(place.leasehold(command));
        until("it catches signals", || catches_int(&waiter));
        waiter.signal(Signal::INT);
        waiter.end().assert_failed(130, "SIGINT while connecting to redis://127.0.0.1:");
    }
    server(&place).cont().unwrap();
}

#[test]
fn ctrl_c_ends_the_wait_for_a_server_that_is_not_told_of_the_release() {
    let mut place = Place::on_redis();
    place.url = format!("redis://127.0.0.1:{}/?timeout=300ms", server(&place).port());
    let mut running = place.holder("x", &["-v"]);
    server(&place).stop().unwrap();
    running.close_stdin();
    while !running.error_line().contains("x: held for") {}
    running.signal(Signal::INT);
    let ended = running.end();
    ended.assert_failed(0, "could not let go, so the lease ends by itself: SIGINT");
    server(&place).cont().unwrap();
}

/// Scripts run while all connections are closed and the scripts flushed, again and again.
#[test]
fn connections_that_are_closed_while_they_are_made_cost_no_run() {
    let (place, is_over) = (Place::on_redis(), AtomicBool::new(false));
    thread::scope(|scope| {
        let hurting = scope.spawn(|| {
            let hurt = ["CLIENT KILL TYPE normal", "SCRIPT FLUSH", "CLIENT KILL TYPE pubsub"];
            for command in hurt.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let _killed_itself = server(&place).command::<()>(command);
                thread::sleep(Duration::from_millis(80));
            }
        });
        let scripts: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..8 {
                        let run = ended(place.shell("x", &["-q"], "echo ran"));
                        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "ran\n"), "{run:?}");
                    }
                })
            })
            .collect();
        let failed: Vec<_> = scripts.into_iter().filter_map(|script| script.join().err()).collect();
        is_over.store(true, Ordering::Relaxed);
        hurting.join().unwrap();
        assert!(failed.is_empty(), "{} of four scripts failed", failed.len());
    });
}

fn server(place: &Place) -> &RedisServer {
    place.server.as_ref().unwrap()
}

fn catches_int(running: &Background) -> bool {
    let path = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (Signal::INT.as_raw() - 1) != 0
}
