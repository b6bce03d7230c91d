//! Processes that the command starts, in any process group: none outlives the lease, even if
//! leasehold or its guardian is stopped or killed. A process that does outlive it is named.

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::process::{Pid, Signal, getsid, kill_process, test_kill_process};

use crate::harness::{Background, PROGRAM, Place, children, ended, is_gone, pid, until};

/// Notes the time again and again in this file, and ignores TERM.
const BEAT: &str =
    "trap '' TERM; exec 2>/dev/null; echo $$; while :; do date +%s%N >>beats; sleep 0.02; done";

/// Puts its work into a separate group, as coreutils' timeout and a shell's job control do.
const IN_GROUPS: [&str; 2] =
    ["timeout 1000 sh -c \"$BEAT\" & wait", "bash -c 'set -m; sh -c \"$BEAT\" & wait'"];

/// `leasehold run x` with a script that has [`BEAT`] in its environment, and the number of the
/// process that beats.
fn beating(place: &Place, options: &[&str], script: &str) -> (Background, Pid) {
    let mut command = place.shell("x", options, script);
    command.env("BEAT", BEAT);
    let mut holder = Background::start(command);
    let beating = pid(&holder.line());
    until("it beats", || place.path("beats").exists());
    (holder, beating)
}

fn guardian(holder: &Background) -> Pid {
    let guardian = children(holder.pid());
    let [guardian] = guardian[..] else { panic!("{guardian:?}") };
    guardian
}

/// The last time a command, or its child that has its own file, noted that it was running, in
/// nanoseconds since 1970.
fn last_beat(place: &Place) -> u128 {
    let files = ["beats", "child"].into_iter().filter(|file| place.path(file).exists());
    files.map(|file| place.read(file).lines().last().unwrap().parse().unwrap()).max().unwrap()
}

pub(crate) fn next_holder(place: &Place) -> Background {
    place.waiter("x", &["-q"], "date +%s%N")
}

#[track_caller]
pub(crate) fn assert_was_alone(place: &Place, mut next: Background) {
    let entered: u128 = next.line().parse().unwrap();
    assert!(last_beat(place) < entered, "the old command still ran when the next one began");
    assert_eq!(next.end().code, Some(0));
}

on_each_store!(
    separate_groups_end_before_the_next_one_begins_when_the_lease_is_revoked,
    separate_groups_end_before_the_next_one_begins_when_leasehold_is_stopped,
    separate_groups_end_before_the_next_one_begins_when_leasehold_is_killed,
    separate_groups_end_when_the_guardian_is_killed,
    a_guardian_that_was_stopped_is_continued_and_ends_the_command_politely,
    a_guardian_that_was_stopped_sees_the_end_of_the_command_and_passes_signals_on,
    a_guardian_that_does_not_answer_is_not_waited_for,
    when_leasehold_and_its_guardian_are_both_stopped_the_command_outlives_the_lease,
    when_leasehold_and_its_guardian_are_both_killed_what_the_command_started_goes_on,
);

fn separate_groups_end_before_the_next_one_begins_when_the_lease_is_revoked(place: &Place) {
    for script in IN_GROUPS {
        let (holder, beating) = beating(place, &["--kill-after", "500ms"], script);
        let next = next_holder(place);
        place.revoke("x", &[]);
        holder.end().assert_failed(76, "an operator revoked the lease");
        assert!(is_gone(beating), "{script}");
        assert_was_alone(place, next);
    }
}

fn separate_groups_end_before_the_next_one_begins_when_leasehold_is_stopped(place: &Place) {
    for script in IN_GROUPS {
        let (holder, beating) = beating(place, &["--ttl", "4s"], script);
        let next = next_holder(place);
        holder.signal(Signal::STOP);
        assert_was_alone(place, next);
        until("it is gone", || is_gone(beating));
        holder.signal(Signal::CONT);
        holder.end().assert_failed(76, "x: lost the lease with token");
    }
}

fn separate_groups_end_before_the_next_one_begins_when_leasehold_is_killed(place: &Place) {
    for script in IN_GROUPS {
        let (holder, beating) = beating(place, &["--ttl", "4s"], script);
        let next = next_holder(place);
        holder.signal(Signal::KILL);
        assert_was_alone(place, next);
        until("it is gone", || is_gone(beating));
    }
}

fn separate_groups_end_when_the_guardian_is_killed(place: &Place) {
    for script in IN_GROUPS {
        let (holder, beating) = beating(place, &[], script);
        let next = next_holder(place);
        kill_process(guardian(&holder), Signal::KILL).unwrap();
        holder.end().assert_failed(137, "guardian");
        assert!(is_gone(beating), "{script}");
        assert_was_alone(place, next);
    }
}

fn a_guardian_that_was_stopped_is_continued_and_ends_the_command_politely(place: &Place) {
    let script =
        "exec 2>/dev/null; trap 'echo told; exit 0' TERM; echo $$; while :; do sleep 0.02; done";
    let mut holder = Background::start(place.shell("x", &["--kill-after", "15s"], script));
    holder.line();
    kill_process(guardian(&holder), Signal::STOP).unwrap();
    place.revoke("x", &[]);
    let holder = holder.end();
    assert_eq!((holder.code, holder.stdout.as_str()), (Some(76), "told\n"), "{holder:?}");
    assert!(holder.stderr.contains("an operator revoked the lease"), "{holder:?}");
    assert!(holder.stderr.ends_with("the command's own exit code was 0\n"), "{holder:?}");
}

fn a_guardian_that_was_stopped_sees_the_end_of_the_command_and_passes_signals_on(place: &Place) {
    let stopped = |script: &str| {
        let mut holder = Background::fed(place.shell("x", &["--ttl", "2s"], script));
        assert_eq!(holder.line(), "runs");
        kill_process(guardian(&holder), Signal::STOP).unwrap();
        holder
    };
    let mut holder = stopped("echo runs; read line; exit 3");
    holder.close_stdin();
    assert_eq!(holder.end().code, Some(3));
    let holder = stopped("trap 'exit 4' TERM; echo runs; while :; do sleep 0.02; done");
    holder.signal(Signal::TERM);
    assert_eq!(holder.end().code, Some(4));
}

/// Keeps a process from running until it is killed: CONT does not continue it.
fn hold_still(process: Pid) {
    let process = nix::unistd::Pid::from_raw(process.as_raw_nonzero().get());
    let (held, is_held) = std::sync::mpsc::channel();
    // Only the thread that traces it can wait for it.
    std::thread::spawn(move || {
        ptrace::attach(process).unwrap();
        while let WaitStatus::Stopped(..) = waitpid(process, Some(WaitPidFlag::__WALL)).unwrap() {
            let _nobody_waits = held.send(());
        }
    });
    is_held.recv().unwrap();
}

fn a_guardian_that_does_not_answer_is_not_waited_for(place: &Place) {
    let (holder, first) = beating(place, &["--kill-after", "500ms"], IN_GROUPS[0]);
    let next = next_holder(place);
    hold_still(guardian(&holder));
    place.revoke("x", &[]);
    holder.end().assert_failed(76, "an operator revoked the lease");
    assert!(is_gone(first));
    assert_was_alone(place, next);
}

fn when_leasehold_and_its_guardian_are_both_stopped_the_command_outlives_the_lease(place: &Place) {
    let (holder, beating) = beating(place, &["--ttl", "2s"], "sh -c \"$BEAT\"");
    let (guardian, mut next) = (guardian(&holder), next_holder(place));
    kill_process(guardian, Signal::STOP).unwrap();
    holder.signal(Signal::STOP);
    let entered: u128 = next.line().parse().unwrap();
    until("the old command runs beside the next one", || last_beat(place) > entered);
    assert_eq!(next.end().code, Some(0));
    holder.signal(Signal::CONT);
    holder.end().assert_failed(76, "x: lost the lease with token");
    assert!(is_gone(beating));
}

fn when_leasehold_and_its_guardian_are_both_killed_what_the_command_started_goes_on(place: &Place) {
    let (holder, beating) = beating(place, &["--ttl", "2s"], "sh -c \"$BEAT\" & wait");
    let guardian = guardian(&holder);
    let command = children(guardian)[0];
    let mut next = next_holder(place);
    // So that it cannot act between the two signals.
    holder.signal(Signal::STOP);
    kill_process(guardian, Signal::KILL).unwrap();
    holder.signal(Signal::KILL);
    let entered: u128 = next.line().parse().unwrap();
    until("what it started runs beside the next one", || last_beat(place) > entered);
    until("the command itself is gone", || is_gone(command));
    assert_eq!(next.end().code, Some(0));
    kill_process(beating, Signal::KILL).unwrap();
}

#[test]
fn a_guardian_that_does_not_answer_costs_no_overlap_when_the_server_is_gone() {
    let mut place = Place::on_redis();
    let (holder, beating) = beating(&place, &["--ttl", "4s"], IN_GROUPS[0]);
    hold_still(guardian(&holder));
    drop(place.server.take());
    holder.end().assert_failed(76, "not renewed");
    assert!(is_gone(beating));
}

#[test]
fn what_a_script_leaves_behind_in_a_separate_group_may_finish_and_is_then_ended() {
    let place = Place::on_file();
    let script = "timeout 1000 sh -c 'sleep 0.1; echo finished >log' & exec true";
    let finished = ended(place.shell("x", &["-q", "--kill-after", "15s"], script));
    finished.assert_silent(0);
    assert_eq!(place.read("log"), "finished\n");
    let script = "timeout 1000 sh -c 'echo $$; exec sleep 1000' & exit 3";
    let left = ended(place.shell("x", &["--kill-after", "100ms"], script));
    left.assert_failed(3, "left behind is being ended");
    assert!(is_gone(pid(&left.stdout)));
}

#[test]
fn what_has_made_its_own_session_stays() {
    let place = Place::on_file();
    let script = "setsid sh -c 'echo $$; exec sleep 1000 >&- 2>&-' & exec sleep 1000";
    let mut holder = Background::start(place.shell("x", &[], script));
    let daemon = pid(&holder.line());
    until("it has its own session", || getsid(Some(daemon)) == Ok(daemon));
    place.revoke("x", &[]);
    holder.end().assert_failed(76, "an operator revoked the lease");
    test_kill_process(daemon).unwrap();
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
    kill_process(daemon, Signal::KILL).unwrap();
}

#[test]
fn what_is_in_the_commands_group_ends_and_a_child_that_leasehold_had_before_stays() {
    let place = Place::on_file();
    let command = "echo $$; sleep 1000 >&- 2>&- & echo $!; wait";
    let script =
        format!("sleep 1000 >&- 2>&- & echo $!; exec {PROGRAM} run x -- sh -c '{command}'");
    let mut holder = Background::start(place.program("sh", &["-c", &script]));
    let [stranger, command, worker] = [(); 3].map(|()| pid(&holder.line()));
    let guardian = children(holder.pid()).into_iter().find(|child| *child != stranger).unwrap();
    kill_process(guardian, Signal::KILL).unwrap();
    holder.end().assert_failed(137, "guardian");
    assert!(is_gone(command) && is_gone(worker) && !is_gone(stranger));
    kill_process(stranger, Signal::KILL).unwrap();
}

/// `leasehold run x OPTIONS -- sh -c SCRIPT` by a user who may not send signals to others. The
/// script has `$NOBODY` before commands that must run as another user. Only root can do that.
fn among_users(place: &Place, options: &[&str], script: &str) -> Option<Background> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let dropped = ["--bounding-set=-kill", "--inh-caps=-kill", PROGRAM, "run", "x"];
    let arguments = [&dropped[..], options, &["--", "sh", "-c", script]].concat();
    let mut command = place.program("setpriv", &arguments);
    command.env("NOBODY", "setpriv --reuid=65534 --clear-groups");
    Some(Background::fed(command))
}

#[test]
fn while_a_process_of_another_user_runs_nothing_is_released() {
    let place = Place::on_file();
    let script = "exec $NOBODY sh -c 'echo $$; exec sleep 1000'";
    let Some(mut holder) = among_users(&place, &["--kill-after", "100ms"], script) else { return };
    let command = pid(&holder.line());
    place.revoke("x", &[]);
    assert!(holder.error_line().contains("an operator revoked the lease"));
    let line = holder.error_line();
    let process = format!("process {} (sleep)", command.as_raw_nonzero());
    for words in [&process, "nobody", "cannot be ended", "sudo leasehold run"] {
        assert!(line.contains(words), "{words:?}: {line}");
    }
    place.end(&["run", "x", "-n", "-q", "--", "true"]).assert_silent(75);
    kill_process(command, Signal::KILL).unwrap();
    assert_eq!(holder.end().code, Some(76));
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
}

#[test]
fn what_runs_as_another_user_outlives_a_lease_that_is_lost() {
    let place = Place::on_file();
    let script = "exec $NOBODY sh -c 'echo $$; exec sleep 1000'";
    let Some(mut holder) = among_users(&place, &["--ttl", "2s"], script) else { return };
    let command = pid(&holder.line());
    place.revoke("x", &[]);
    assert_eq!(ended(place.shell("x", &[], "true")).code, Some(0));
    assert!(!is_gone(command));
    kill_process(command, Signal::KILL).unwrap();
    assert_eq!(holder.end().code, Some(76));
}

#[test]
fn what_another_user_leaves_behind_is_waited_for() {
    let place = Place::on_file();
    let script = "$NOBODY sh -c 'echo $$; exec sleep 1000' & exec cat";
    let Some(mut holder) = among_users(&place, &["--kill-after", "100ms"], script) else { return };
    let left = pid(&holder.line());
    holder.close_stdin();
    assert!(holder.error_line().contains("left behind is being ended"));
    assert!(holder.error_line().contains("cannot be ended"));
    place.end(&["run", "x", "-n", "-q", "--", "true"]).assert_silent(75);
    kill_process(left, Signal::KILL).unwrap();
    holder.end().assert_silent(0);
}

#[test]
fn a_guardian_that_hangs_while_it_ends_the_command_is_replaced_and_not_said_to_be_killed() {
    let place = Place::on_file();
    let script = "exec 2>&-; trap 'echo told' TERM USR1; echo $$; while :; do sleep 0.02; done";
    let mut holder = Background::start(place.shell("x", &["--kill-after", "1s"], script));
    let command = pid(&holder.line());
    // It passes the second signal on after it has reported that it ends the command.
    for signal in [Signal::TERM, Signal::USR1] {
        holder.signal(signal);
        assert_eq!(holder.line(), "told");
    }
    hold_still(guardian(&holder));
    holder.end().assert_failed(137, "leasehold: the command was ended by SIGKILL");
    assert!(is_gone(command));
}
