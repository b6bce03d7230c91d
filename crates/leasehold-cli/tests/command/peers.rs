//! What the test suites of flock(1), timeout(1), nohup(1), etcdctl and `consul lock` expect of a
//! command that runs another. The comment of a test names the original.

use rustix::process::Signal;

use crate::harness::{Background, Ended, PROGRAM, Place, ended, until};

on_each_store!(
    holders_take_turns_and_one_that_is_interrupted_while_it_waits_has_none,
    timeout_around_a_run_ends_its_command_and_lets_go,
    the_command_has_the_descriptors_of_its_caller_and_none_of_leasehold,
    remarks_that_nobody_can_read_change_no_exit_code,
);

/// A shell that runs this script, with `$LEASEHOLD` for the program.
pub(crate) fn script(place: &Place, script: &str) -> Ended {
    let mut shell = place.program("sh", &["-c", script]);
    shell.env("LEASEHOLD", PROGRAM);
    ended(shell)
}

/// etcd: `testLock` of etcdctl.
fn holders_take_turns_and_one_that_is_interrupted_while_it_waits_has_none(place: &Place) {
    let hold = || {
        let mut hold = Background::fed(place.leasehold(&["hold", "x", "-q"]));
        // Otherwise it would end with its stdin, when the test waits for its end.
        let stdin = hold.child().stdin.take();
        (hold, stdin)
    };
    let waiting = |count: u32| until("they wait", || place.show("x")["waiting"] == count);
    let (mut first, _open) = hold();
    let granted = first.line();
    let (skipped, _open) = hold();
    waiting(1);
    let (mut second, _open) = hold();
    waiting(2);
    skipped.signal(Signal::INT);
    let skipped = skipped.end();
    assert!(skipped.code != Some(0) && skipped.stdout.is_empty(), "{skipped:?}");
    waiting(1);
    first.signal(Signal::INT);
    first.end().assert_silent(0);
    assert_ne!(second.line(), granted, "another token");
    second.signal(Signal::INT);
    second.end().assert_silent(0);
}

/// coreutils: `timeout.sh`, `timeout-group.sh`. If timeout(1) ends a run, its lock is released
/// immediately. A timeout(1) inside passes on its own exit code.
fn timeout_around_a_run_ends_its_command_and_lets_go(place: &Place) {
    let run = "$LEASEHOLD run x -q -- sh -c 'echo $$ >pid; exec sleep 1000'";
    for options in ["", "--foreground"] {
        let timed_out = script(place, &format!("exec timeout {options} 1 {run}"));
        timed_out.assert_silent(124);
        let left = format!("! kill -0 {} 2>/dev/null", place.read("pid").trim());
        assert_eq!(script(place, &left).code, Some(0));
        assert_eq!(place.token("x"), None);
    }
    place.end(&["run", "x", "--", "timeout", "0.01", "sleep", "1000"]).assert_silent(124);
}

/// util-linux: `flock`'s `fd` and `close`. A script may pass on a descriptor. A socket or a
/// database of leasehold in the wrong hands would be a leak.
fn the_command_has_the_descriptors_of_its_caller_and_none_of_leasehold(place: &Place) {
    let compare = "exec 9>nine; sh -c 'ls /proc/self/fd' >before
        exec $LEASEHOLD run x -- sh -c 'ls /proc/self/fd >after; echo through >&9'";
    script(place, compare).assert_silent(0);
    assert_eq!(place.read("before"), place.read("after"));
    assert_eq!(place.read("nine"), "through\n");
}

/// coreutils: `timeout.sh`, whose remarks go into a pipe that nobody reads, and `nohup.sh`.
fn remarks_that_nobody_can_read_change_no_exit_code(place: &Place) {
    let _holder = place.holder("busy", &[]);
    for (options, code) in [("busy -n -- true", 75), ("free -v -- sh -c 'exit 3'", 3)] {
        let full = script(place, &format!("exec $LEASEHOLD run {options} 2>/dev/full"));
        assert_eq!(full.code, Some(code), "{full:?}");
        let unread = format!("{{ $LEASEHOLD run {options}; echo $? >code; }} 2>&1 | exec true");
        script(place, &unread);
        until("it has ended", || place.read("code") == format!("{code}\n"));
    }
}

/// coreutils: `timeout.sh` with its standard streams closed, as daemons start programs. Files that
/// leasehold opens must not get the numbers of these streams.
#[test]
fn closed_standard_streams_are_not_replaced_by_leaseholds_own_files() {
    let place = Place::on_file();
    let look = "streams=$(for n in 0 1 2; do readlink /proc/$$/fd/$n; done)
        echo \"$streams\" >streams; exit 7";
    let closed = format!("exec $LEASEHOLD run x -- sh -c '{look}' <&- >&- 2>&-");
    assert_eq!(script(&place, &closed).code, Some(7));
    assert_eq!(place.read("streams"), "/dev/null\n".repeat(3));
}

/// coreutils: `timeout.sh`, "immune to parent's SIGCHLD handler".
#[test]
fn a_caller_that_ignores_the_signal_of_ended_children_is_given_the_exit_code() {
    let place = Place::on_file();
    let run = "exec env --ignore-signal=CHLD $LEASEHOLD run x -- sh -c 'sleep 0.01 & exit 3'";
    script(&place, run).assert_silent(3);
}

/// Runs a program as the first process of a container.
fn contained(place: &Place, inside: &str) -> Ended {
    script(place, &format!("exec unshare --pid --fork --mount-proc --kill-child {inside}"))
}

fn may_contain(place: &Place) -> bool {
    let may = contained(place, "true").code == Some(0);
    if !may {
        println!("left out: a process namespace is not allowed here");
    }
    may
}

/// coreutils: `init-parent.sh`. In a container, the program may be the first process or its child.
/// All orphans become children of the first process.
#[test]
fn the_first_process_of_a_container_and_its_child_run_a_command() {
    let place = Place::on_file();
    if !may_contain(&place) {
        return;
    }
    let run = "$LEASEHOLD run x -q --kill-after 15s";
    let work = "sh -c '(sleep 0.1; echo finished >>log) & exit 5'";
    contained(&place, &format!("{run} -- {work}")).assert_silent(5);
    assert_eq!(place.read("log"), "finished\n");
    let child = format!("sh -c \"{run} -- {}; exit \\$?\"", work.replace('"', "\\\""));
    contained(&place, &child).assert_silent(5);
    assert_eq!(place.read("log"), "finished\n".repeat(2));
}

/// The first process of most containers is a program that waits only for its own children, like
/// `cat` here.
#[test]
fn a_container_whose_first_process_waits_for_nobody_has_no_dead_process_afterwards() {
    let place = Place::on_file();
    let first = "
        mkfifo pipe
        (
            $LEASEHOLD run x -q -- true
            $LEASEHOLD run x -q -- sh -c 'kill -9 $$'
            for process in /proc/[0-9]*/stat; do
                { read -r line <$process; } 2>/dev/null || continue
                case $line in *'(leasehold) '*) echo $line >>dead ;; esac
            done
            echo looked >>log
        ) 3>pipe &
        exec cat pipe";
    place.write_script("first.sh", first);
    if !may_contain(&place) {
        return;
    }
    assert_eq!(contained(&place, "sh first.sh").code, Some(0));
    assert_eq!((place.read("log").as_str(), place.read("dead").as_str()), ("looked\n", ""));
}
