//! The guardian: the command never runs when another client could have the lease, whatever happens
//! to leasehold.

use std::os::unix::process::CommandExt as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::descendants::assert_was_alone;
use crate::harness::{Background, PROGRAM, Place, children, group_is_gone, is_gone, pid, until};

/// Notes the time again and again, and ignores TERM. So does its child, in the same group.
const STUBBORN: &str = "trap '' TERM; exec 2>/dev/null; echo $$
    beat() { while :; do date +%s%N >>$1; sleep 0.02; done; }
    beat child & beat beats";

/// A command that prints its process group and waits for its end.
const PATIENT: &str = "echo $$; exec sleep 1000";

fn group(running: &mut Background) -> Pid {
    pid(&running.line())
}

on_each_store!(
    ten_waiters_follow_a_killed_holder_in_their_order,
    when_leasehold_is_killed_its_command_is_gone_before_the_next_one_begins,
    when_leaseholds_whole_group_is_killed_its_command_ends_too,
    a_stopped_leasehold_loses_its_command_in_time_and_says_so_first,
    a_stopped_guardian_goes_on_and_ends_the_command_when_leasehold_is_killed,
    a_guardian_that_was_stopped_past_the_deadline_that_it_knew_learns_of_the_renewals_first,
    a_signal_to_everything_called_leasehold_reaches_the_command_and_leaves_the_guardian,
    a_guardian_that_waits_for_the_lease_outlives_signals_and_is_replaced_if_it_was_killed,
    a_guardian_that_waits_for_the_lease_ends_with_leasehold,
    a_lease_within_a_lease_adds_no_more_grace,
    a_revoked_lease_ends_the_command_politely_and_then_lets_go,
    on_lost_kill_does_not_ask_and_on_lost_ignore_does_nothing,
);

fn when_leasehold_is_killed_its_command_is_gone_before_the_next_one_begins(place: &Place) {
    let mut holder = Background::start(place.shell("x", &["--ttl", "4s"], STUBBORN));
    let group = group(&mut holder);
    until("both have begun", || place.path("beats").exists() && place.path("child").exists());
    let next = place.waiter("x", &["-q"], "date +%s%N");
    holder.signal(Signal::KILL);
    assert_was_alone(place, next);
    until("the group is gone", || group_is_gone(group));
}

fn ten_waiters_follow_a_killed_holder_in_their_order(place: &Place) {
    let mut holder = Background::start(place.shell("x", &["--ttl", "8s"], PATIENT));
    group(&mut holder);
    let waiters: Vec<Background> = (1..=10)
        .map(|number| {
            let script = format!("echo {number} >>log");
            let waiter = Background::start(place.shell("x", &["-q"], &script));
            until("one more waits", || place.show("x")["waiting"] == number);
            waiter
        })
        .collect();
    holder.signal(Signal::KILL);
    for waiter in waiters {
        waiter.end().assert_silent(0);
    }
    assert_eq!(place.read("log"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
}

fn when_leaseholds_whole_group_is_killed_its_command_ends_too(place: &Place) {
    let mut command = place.shell("x", &["--ttl", "4s"], PATIENT);
    let mut holder = Background::start({
        command.process_group(0);
        command
    });
    let group = group(&mut holder);
    kill_process_group(holder.pid(), Signal::KILL).unwrap();
    until("the group is gone", || group_is_gone(group));
}

fn a_stopped_leasehold_loses_its_command_in_time_and_says_so_first(place: &Place) {
    let mut holder = Background::start(place.shell("x", &["--ttl", "4s"], STUBBORN));
    let group = group(&mut holder);
    until("both have begun", || place.path("beats").exists() && place.path("child").exists());
    holder.signal(Signal::STOP);
    assert_was_alone(place, Background::start(place.shell("x", &["-q"], "date +%s%N")));
    until("the group is gone", || group_is_gone(group));
    // Another client has it now. Late messages of the first one must not affect that client.
    let mut next = place.holder("x", &[]);
    let token = place.token("x");
    holder.signal(Signal::CONT);
    holder.end().assert_failed(76, "x: lost the lease with token");
    assert_eq!(place.token("x"), token);
    next.close_stdin();
    next.end().assert_silent(0);
}

fn a_stopped_guardian_goes_on_and_ends_the_command_when_leasehold_is_killed(place: &Place) {
    // The orphan's next parent is another guardian. With that of most orphans, in another session,
    // the kernel continues it anyway.
    let script = format!("{PROGRAM} run in -- sh -c 'echo $PPID; exec sleep 999' & exec sleep 999");
    let mut outer = Background::start(place.shell("x", &[], &script));
    let (guardian, child) = (group(&mut outer), |of| children(of)[0]);
    let (inner, command) = (child(child(child(outer.pid()))), child(guardian));
    kill_process(guardian, Signal::STOP).unwrap();
    kill_process(inner, Signal::KILL).unwrap();
    until("both are gone", || is_gone(guardian) && is_gone(command));
}

fn a_guardian_that_was_stopped_past_the_deadline_that_it_knew_learns_of_the_renewals_first(
    place: &Place,
) {
    let script = "exec 2>/dev/null; trap 'exit 5' TERM; trap 'echo told' USR1
        echo $$; while :; do sleep 0.02; done";
    let options = ["-q", "--ttl", "8s", "--kill-after", "2s"];
    let mut holder = Background::start(place.shell("x", &options, script));
    group(&mut holder);
    let guardian = children(holder.pid())[0];
    kill_process(guardian, Signal::STOP).unwrap();
    let stopped = Instant::now();
    // The lease is renewed every 2.7 s.
    until("the first renewal is over, too", || stopped.elapsed() > Duration::from_secs(9));
    kill_process(guardian, Signal::CONT).unwrap();
    holder.signal(Signal::USR1);
    assert_eq!(holder.line(), "told");
    holder.signal(Signal::TERM);
    holder.end().assert_silent(5);
}

fn a_signal_to_everything_called_leasehold_reaches_the_command_and_leaves_the_guardian(
    place: &Place,
) {
    let script =
        "exec 2>/dev/null; trap 'echo told; exit 5' TERM; echo $$; while :; do sleep 0.02; done";
    let mut holder = Background::start(place.shell("x", &[], script));
    group(&mut holder);
    let guardian = children(holder.pid())[0];
    kill_process(guardian, Signal::TERM).unwrap();
    holder.signal(Signal::TERM);
    let holder = holder.end();
    assert_eq!((holder.code, holder.stdout.as_str()), (Some(5), "told\n"), "{holder:?}");
}

/// A process that waits for the lock, and its guardian.
fn waiter(place: &Place) -> (Background, Pid) {
    let waiter = place.waiter("x", &["-q"], "echo in");
    let guardian = children(waiter.pid());
    let [guardian] = guardian[..] else { panic!("{guardian:?}") };
    (waiter, guardian)
}

fn a_guardian_that_waits_for_the_lease_outlives_signals_and_is_replaced_if_it_was_killed(
    place: &Place,
) {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut holder = place.holder("x", &[]);
        let (mut waiter, guardian) = waiter(place);
        kill_process(guardian, signal).unwrap();
        if signal == Signal::KILL {
            until("the guardian has ended", || is_gone(guardian));
        }
        holder.close_stdin();
        assert_eq!(waiter.line(), "in");
        waiter.end().assert_silent(0);
        holder.end().assert_silent(0);
    }
}

fn a_guardian_that_waits_for_the_lease_ends_with_leasehold(place: &Place) {
    let mut holder = place.holder("x", &[]);
    for signal in [Signal::TERM, Signal::KILL] {
        let (waiter, guardian) = waiter(place);
        waiter.signal(signal);
        waiter.end().assert_ended(128 + signal.as_raw());
        until("its guardian has ended", || group_is_gone(guardian));
    }
    holder.close_stdin();
    holder.end().assert_silent(0);
}

fn a_lease_within_a_lease_adds_no_more_grace(place: &Place) {
    let inner =
        format!("exec {PROGRAM} run inner --ttl 1h --kill-after 30m -- sh -c \"$STUBBORN\"");
    let mut command = place.shell("outer", &["--kill-after", "500ms"], &inner);
    command.env("STUBBORN", STUBBORN);
    let mut outer = Background::start(command);
    let group = group(&mut outer);
    outer.signal(Signal::KILL);
    // Long before the end of the inner grace.
    until("the inner group is gone", || group_is_gone(group));
}

fn a_revoked_lease_ends_the_command_politely_and_then_lets_go(place: &Place) {
    let script =
        "exec 2>/dev/null; trap 'echo told; exit 0' TERM; echo $$; while :; do sleep 0.02; done";
    let mut holder = Background::start(place.shell("x", &[], script));
    group(&mut holder);
    let token = place.token("x").unwrap();
    place.end(&["revoke", "x", "1"]).assert_failed(1, "does not hold it");
    place.end(&["revoke", "x", &token]).assert_silent(0);
    let holder = holder.end();
    assert_eq!((holder.code, holder.stdout.as_str()), (Some(76), "told\n"), "{holder:?}");
    let lines: Vec<&str> = holder.stderr.lines().collect();
    assert!(
        lines[0].contains("an operator revoked the lease; the command is being ended"),
        "{holder:?}"
    );
    assert_eq!(lines[1..], ["leasehold: x: the command's own exit code was 0"]);
    // The lease was released, and did not expire: the ttl is 30 s.
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
    place.end(&["revoke", "x", &token]).assert_failed(1, "does not hold it");
}

fn on_lost_kill_does_not_ask_and_on_lost_ignore_does_nothing(place: &Place) {
    let revoke = |place: &Place| {
        place.revoke("x", &["--force", "-q"]);
    };
    let script = "trap 'echo told' TERM; echo $$; cat";
    let options = ["--on-lost", "kill"];
    let mut holder = Background::fed(place.shell("x", &options, script));
    let _open = holder.child().stdin.take();
    let group = group(&mut holder);
    revoke(place);
    let ended = holder.end();
    ended.assert_failed(76, "is killed");
    assert_eq!(ended.stdout, "");
    until("the group is gone", || group_is_gone(group));
    let mut holder =
        Background::fed(place.shell("x", &["--on-lost", "ignore"], "echo; cat; exit 4"));
    holder.line();
    revoke(place);
    let line = holder.error_line();
    assert!(line.contains("runs on"), "{line}");
    holder.close_stdin();
    holder.end().assert_silent(4);
}

#[test]
fn a_server_that_is_gone_costs_the_command_before_it_costs_the_lease() {
    let mut place = Place::on_redis();
    let mut holder = Background::start(place.shell("x", &["--ttl", "4s"], PATIENT));
    let group = group(&mut holder);
    drop(place.server.take());
    let ended = holder.end();
    ended.assert_failed(76, "and is not renewed: the command is being ended (");
    until("the group is gone", || group_is_gone(group));
}
