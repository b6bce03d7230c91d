//! Signals: what is passed on to the command, and what is left as it was.

use rustix::process::Signal;

use crate::harness::{Background, Place, until};

/// Tells its signals until one ends it.
const TELLING: &str = "exec 2>/dev/null
    for s in TERM INT HUP QUIT USR1 USR2 WINCH; do trap \"echo $s\" $s; done
    echo ready; while :; do sleep 0.02; done";

#[test]
fn signals_are_passed_on_to_the_command() {
    let place = Place::on_file();
    let mut running = Background::start(place.shell("x", &[], TELLING));
    assert_eq!(running.line(), "ready");
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::TERM, "TERM"), // after which it has not long
    ] {
        running.signal(signal);
        assert_eq!(running.line(), name);
    }
}

#[test]
fn a_signal_that_was_ignored_stays_ignored_for_the_command() {
    let place = Place::on_file();
    // What nohup(1) does, and a shell script's `&`.
    let script = format!(
        "trap '' HUP; exec {} run x -- sh -c 'grep SigIgn /proc/self/status; cat'",
        crate::harness::PROGRAM
    );
    let mut running = Background::fed(place.program("sh", &["-c", &script]));
    let line = running.line();
    let mask = u64::from_str_radix(line.strip_prefix("SigIgn:").unwrap().trim(), 16).unwrap();
    assert_eq!(mask & 1, 1, "HUP is not ignored: {line}");
    running.signal(Signal::HUP);
    running.close_stdin();
    running.end().assert_silent(0);
}

#[test]
fn a_caller_that_blocks_the_signal_of_ended_children_is_served_and_finds_it_blocked() {
    let place = Place::on_file();
    let status = ["run", "x", "--", "grep", "SigBlk", "/proc/self/status"];
    let arguments = [&["--block-signal=CHLD", crate::harness::PROGRAM][..], &status].concat();
    let mut running = Background::start(place.program("env", &arguments));
    let line = running.line();
    let mask = u64::from_str_radix(line.strip_prefix("SigBlk:").unwrap().trim(), 16).unwrap();
    assert_eq!(mask, 1 << (Signal::CHILD.as_raw() - 1), "{line}");
    running.end().assert_silent(0);
}

#[test]
fn stop_and_continue_are_mirrored_with_a_warning() {
    let place = Place::on_file();
    // Without a child: one that is stopped between fork and exec would keep its parent from
    // stopping, on any terminal.
    let script = "trap 'echo continued' CONT; echo ready; while :; do read -t 0.02; done";
    let arguments = ["run", "x", "--", "bash", "-c", script];
    let mut running = Background::fed(place.leasehold(&arguments));
    assert_eq!(running.line(), "ready");
    running.signal(Signal::TSTP);
    let warning = running.error_line();
    assert!(warning.contains("x: stopped: the lease ends in"), "{warning}");
    until("leasehold has stopped itself", || state_of(&running) == 'T');
    running.signal(Signal::CONT);
    assert_eq!(running.line(), "continued");
    until("leasehold runs again", || state_of(&running) != 'T');
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(143));
}

#[test]
fn a_command_that_is_stopped_when_its_lease_is_lost_ends_all_the_same() {
    let place = Place::on_file();
    let running = Background::start(place.shell("x", &[], "kill -STOP $$; echo never"));
    until("the command has the lock", || place.token("x").is_some());
    let token = place.token("x").unwrap();
    place.end(&["revoke", "x", "--token", &token]).assert_silent(0);
    running.end().assert_failed(76, "an operator revoked it");
}

fn state_of(running: &Background) -> char {
    let path = format!("/proc/{}/stat", running.pid().as_raw_nonzero());
    let stat = std::fs::read_to_string(path).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}
