//! Signals: which are passed on to the command, and which settings stay as they were.

use std::os::unix::process::CommandExt as _;

use rustix::process::Signal;
use rustix_libc_wrappers::process::SignalExt as _;

use crate::harness::{Background, PROGRAM, Place, ended, until};

#[test]
fn whatever_would_end_leasehold_reaches_the_command() {
    let place = Place::on_file();
    let signals = [
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::ABORT, "ABRT"),
        (Signal::ALARM, "ALRM"),
        (Signal::IO, "IO"),
        (Signal::POWER, "PWR"),
        (Signal::PROF, "PROF"),
        (Signal::STKFLT, "STKFLT"),
        (Signal::VTALARM, "VTALRM"),
        (Signal::XCPU, "XCPU"),
        (Signal::rt_min(), "RTMIN"),
        (Signal::rt(3).unwrap(), "RTMIN+3"),
        (Signal::rt_max(), "RTMAX"),
        (Signal::TERM, "TERM"), // after which it has not long
    ];
    let names: Vec<&str> = signals.iter().map(|(_, name)| *name).collect();
    let script = format!(
        "for s in {}; do trap \"echo $s\" $s; done; echo ready; while :; do read -t 0.02; done",
        names.join(" ")
    );
    let arguments = ["run", "x", "--", "bash", "-c", &script];
    let mut running = Background::fed(place.leasehold(&arguments));
    assert_eq!(running.line(), "ready");
    for (signal, name) in signals {
        running.signal(signal);
        assert_eq!(running.line(), name);
    }
}

#[test]
fn leasehold_dies_of_the_signal_that_ended_its_command() {
    let place = Place::on_file();
    for (name, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("USR1", 10), ("TERM", 15)] {
        let ended = ended(place.shell("x", &["-q"], &format!("kill -{name} $$")));
        ended.assert_silent(128 + number);
        assert_eq!(ended.signal, Some(number), "{name}");
    }
    // No shell in between: CMD has ended itself.
    let ended = ended(place.shell("x", &[], "exit 130"));
    assert_eq!((ended.code, ended.signal), (Some(130), None));
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
}

#[test]
fn leasehold_dies_of_the_signal_that_interrupts_its_waiting() {
    let place = Place::on_file();
    let _holder = place.holder("x", &[]);
    for signal in [Signal::INT, Signal::TERM, Signal::ALARM] {
        let waiter = place.waiter("x", &[], "true");
        waiter.signal(signal);
        let ended = waiter.end();
        ended.assert_failed(128 + signal.as_raw(), "while waiting: left the queue");
        assert_eq!(ended.signal, Some(signal.as_raw()));
        assert_eq!(place.show("x")["waiting"], 0);
    }
}

#[test]
fn a_hold_is_let_go_by_any_signal_that_ends_a_program() {
    let place = Place::on_redis();
    for signal in [Signal::TERM, Signal::ALARM, Signal::XCPU, Signal::rt_min()] {
        let mut holder = Background::fed(place.leasehold(&["hold", "x"]));
        assert!(holder.line().contains("token"));
        // Stdin stays open until the end: the end of stdin would end it, too.
        let _open = holder.child().stdin.take();
        holder.signal(signal);
        holder.end().assert_silent(0);
        place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
    }
}

#[test]
fn only_the_command_leaves_a_core() {
    let place = Place::on_file();
    let dumping = |script: &str| {
        let script = format!("ulimit -c unlimited; {script}");
        ended(place.program("bash", &["-c", &script]))
    };
    if !dumping("kill -QUIT $$").dumped_core {
        println!("left out: no core is left here");
        return;
    }
    let ended = dumping(&format!("exec {PROGRAM} run x -- bash -c 'kill -QUIT $$'"));
    assert_eq!((ended.signal, ended.dumped_core), (Some(3), false), "{ended:?}");
}

#[test]
fn a_write_beyond_the_limit_of_file_sizes_is_told_with_its_remedy() {
    let place = Place::on_file();
    for command in ["run x -- true", "ls", "hold x"] {
        let script = format!("ulimit -f 1; exec {PROGRAM} {command}");
        let ended = ended(place.program("bash", &["-c", &script]));
        ended.assert_failed(69, "raise the limit of file sizes (`ulimit -f`)");
    }
}

#[test]
fn the_command_finds_the_limit_of_file_sizes_as_deadly_as_it_was() {
    let place = Place::on_redis();
    let script = format!("ulimit -f 1; exec {PROGRAM} run x -- head -c 100000 /dev/zero >big");
    let ended = ended(place.program("bash", &["-c", &script]));
    assert_eq!(ended.signal, Some(Signal::XFSZ.as_raw()), "{ended:?}");
}

/// The signals in a line of `/proc/self/status`.
fn mask(line: &str) -> u64 {
    u64::from_str_radix(line.split_once(':').unwrap().1.trim(), 16).unwrap()
}

/// Programs in Rust do not know how the caller had set this signal, so it gets its default.
#[test]
fn a_closed_pipe_ends_the_command_also_where_the_caller_ignored_that() {
    let place = Place::on_file();
    let script = format!("trap '' PIPE; exec {PROGRAM} run x -- grep SigIgn /proc/self/status");
    let ended = ended(place.program("bash", &["-c", &script]));
    assert_eq!(mask(&ended.stdout) >> (Signal::PIPE.as_raw() - 1) & 1, 0, "{ended:?}");
}

#[test]
fn a_signal_that_was_ignored_stays_ignored_for_the_command() {
    let place = Place::on_file();
    // As with nohup(1), and with `&` in a shell script.
    let script =
        format!("trap '' HUP; exec {PROGRAM} run x -- sh -c 'grep SigIgn /proc/self/status; cat'");
    let mut running = Background::fed(place.program("sh", &["-c", &script]));
    let line = running.line();
    assert_eq!(mask(&line) & 1, 1, "HUP is not ignored: {line}");
    running.signal(Signal::HUP);
    running.close_stdin();
    running.end().assert_silent(0);
}

#[test]
fn a_caller_that_blocks_the_signal_of_ended_children_is_served_and_finds_it_blocked() {
    let place = Place::on_file();
    let status = ["run", "x", "--", "grep", "SigBlk", "/proc/self/status"];
    let arguments = [&["--block-signal=CHLD", PROGRAM][..], &status].concat();
    let mut running = Background::start(place.program("env", &arguments));
    let line = running.line();
    assert_eq!(mask(&line), 1 << (Signal::CHILD.as_raw() - 1), "{line}");
    running.end().assert_silent(0);
}

#[test]
fn stop_and_continue_are_mirrored_with_a_warning() {
    let place = Place::on_file();
    // Without a child: a child that is stopped between fork and exec would keep its parent from
    // stopping, on any terminal.
    let script = "trap 'echo continued' CONT; echo ready; while :; do read -t 0.02; done";
    let mut command = place.leasehold(&["run", "x", "--", "bash", "-c", script]);
    // Its parent is in the same session and in another group, so it can continue leasehold.
    command.process_group(0);
    let mut running = Background::fed(command);
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
fn the_signal_that_ends_the_command_can_be_chosen_and_its_own_exit_code_is_told() {
    let place = Place::on_file();
    let script = "trap 'exit 7' INT; trap '' TERM; echo ready; while :; do sleep 0.02; done";
    let mut running = Background::start(place.shell("x", &["--signal", "INT"], script));
    assert_eq!(running.line(), "ready");
    place.revoke("x", &[]);
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.stderr.ends_with("the command's own exit code was 7\n"), "{ended:?}");
    place
        .end(&["run", "x", "--signal", "CONT", "--", "true"])
        .assert_failed(2, "\"CONT\" does not end a program");
}

#[test]
fn a_command_that_is_stopped_when_its_lease_is_lost_ends_all_the_same() {
    let place = Place::on_file();
    let running = Background::start(place.shell("x", &[], "kill -STOP $$; echo never"));
    until("the command has the lock", || place.token("x").is_some());
    place.revoke("x", &[]);
    running.end().assert_failed(76, "an operator revoked the lease");
}

fn state_of(running: &Background) -> char {
    let path = format!("/proc/{}/stat", running.pid().as_raw_nonzero());
    let stat = std::fs::read_to_string(path).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}
