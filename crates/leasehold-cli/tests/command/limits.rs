//! Limits mean what they say: how long a command may run, and how it is ended.

use rustix::process::Signal;

use crate::harness::{Background, Place, ended, group_is_gone, pid};

/// Ignores TERM, prints its process id, and does not end.
const STUBBORN: &str = "trap '' TERM; echo $$; while :; do sleep 0.1; done";

on_each_store!(
    a_command_may_run_for_as_long_as_max_hold_says_and_then_has_the_time_to_end,
    what_ignores_the_end_of_its_time_is_killed_and_then_the_lock_is_free,
    a_command_that_ignores_a_term_that_leasehold_was_sent_is_killed,
    what_is_held_without_a_command_is_let_go_of_when_it_has_lasted_as_long_as_it_may,
    what_a_command_leaves_behind_is_told_of_before_it_is_ended,
);

fn a_command_may_run_for_as_long_as_max_hold_says_and_then_has_the_time_to_end(place: &Place) {
    // TERM comes a second before the command's time is over. The command then takes longer to end
    // than it was allowed to run.
    let script = "exec 2>/dev/null; trap 'echo told; sleep 2; echo done; exit 3' TERM
        sleep 1; echo works; while :; do sleep 0.02; done";
    let options = ["--max-hold", "2s", "--kill-after", "15s"];
    let ended = ended(place.shell("x", &options, script));
    assert_eq!(ended.stdout, "works\ntold\ndone\n", "{ended:?}");
    let said = "leasehold: x: --max-hold 2s is over: the command is being ended\n\
        leasehold: x: the command's own exit code was 3\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(76), said));
    assert_eq!(place.token("x"), None);
}

fn what_ignores_the_end_of_its_time_is_killed_and_then_the_lock_is_free(place: &Place) {
    for on_lost in ["ignore", "kill", "term"] {
        let options = ["--max-hold", "1s", "--kill-after", "100ms", "--on-lost", on_lost];
        let ended = ended(place.shell("x", &options, STUBBORN));
        ended.assert_failed(76, "--max-hold 1s is over");
        assert!(group_is_gone(pid(&ended.stdout)), "{on_lost}");
        assert_eq!(place.token("x"), None, "{on_lost}");
    }
}

fn a_command_that_ignores_a_term_that_leasehold_was_sent_is_killed(place: &Place) {
    let mut running = Background::start(place.shell("x", &["--kill-after", "100ms"], STUBBORN));
    let group = pid(&running.line());
    running.signal(Signal::TERM);
    running.end().assert_failed(137, "ignored SIGTERM for 100ms, and was ended by SIGKILL");
    assert!(group_is_gone(group));
    assert_eq!(place.token("x"), None);
}

fn what_is_held_without_a_command_is_let_go_of_when_it_has_lasted_as_long_as_it_may(place: &Place) {
    let mut holder = Background::fed(place.leasehold(&["hold", "x", "--max-hold", "1"]));
    let _open = holder.child().stdin.take();
    holder.end().assert_failed(76, "x: --max-hold 1 is over");
    assert_eq!(place.token("x"), None);
}

fn what_a_command_leaves_behind_is_told_of_before_it_is_ended(place: &Place) {
    // The process that is left behind ends once it may read, so it is reported before that.
    let options = ["--kill-after", "15s"];
    let mut running = Background::fed(place.shell("x", &options, "exec 3<&0; cat <&3 & exit 0"));
    let line = running.error_line();
    assert!(line.starts_with("leasehold: x: waits up to 1"), "{line}");
    assert!(line.ends_with("s for what the command left behind"), "{line}");
    assert!(place.token("x").is_some());
    running.close_stdin();
    running.end().assert_silent(0);
    let left = ended(place.shell("x", &["--kill-after", "2s"], "sleep 600 & exit 4"));
    let lines: Vec<_> = left.stderr.lines().collect();
    assert_eq!((left.code, lines.len()), (Some(4), 2), "{left:?}");
    assert!(lines[0].contains("x: waits up to"), "{left:?}");
    assert!(lines[1].contains("x: what the command left behind is being ended"), "{left:?}");
    assert_eq!(place.token("x"), None);
}
