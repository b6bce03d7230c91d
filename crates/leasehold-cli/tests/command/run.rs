//! `leasehold run`: what the command sees, and what its caller learns.

use std::io::Write as _;

use crate::harness::{Background, PROGRAM, Place, ended, until};

on_each_store!(
    the_exit_code_is_the_commands,
    a_command_that_a_signal_ends_gives_128_and_the_signal,
    stdin_stdout_and_stderr_are_the_commands,
    the_variables_of_the_lease_override_inherited_ones,
    a_busy_lock_is_75_or_whatever_was_asked_for,
    a_waiter_runs_when_the_holder_has_ended,
    the_command_is_looked_up_before_anything_is_acquired,
    what_the_command_leaves_behind_may_finish_and_is_then_ended,
);

on_postgres!(a_busy_lock_is_75_or_whatever_was_asked_for,);

fn the_exit_code_is_the_commands(place: &Place) {
    place.end(&["run", "x", "--", "true"]).assert_silent(0);
    ended(place.shell("x", &[], "exit 7")).assert_silent(7);
    ended(place.shell("x", &[], "exit 255")).assert_silent(255);
}

fn a_command_that_a_signal_ends_gives_128_and_the_signal(place: &Place) {
    ended(place.shell("x", &[], "kill -9 $$")).assert_failed(137, "SIGKILL");
    ended(place.shell("x", &["-q"], "kill -TERM $$")).assert_silent(143);
}

fn stdin_stdout_and_stderr_are_the_commands(place: &Place) {
    let mut running = Background::fed(place.shell("x", &[], "cat; echo to stderr >&2"));
    let mut stdin = running.child().stdin.take().unwrap();
    stdin.write_all(b"through\n").unwrap();
    drop(stdin);
    let ended = running.end();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("through\n", "to stderr\n"));
}

fn the_variables_of_the_lease_override_inherited_ones(place: &Place) {
    let mut command = place.shell(
        "a name",
        &[],
        "echo \"$LEASEHOLD_NAME|$LEASEHOLD_TOKEN|$LEASEHOLD_HOLDER|$LEASEHOLD_STORE\"",
    );
    for name in ["LEASEHOLD_NAME", "LEASEHOLD_TOKEN", "LEASEHOLD_HOLDER"] {
        command.env(name, "inherited");
    }
    let ended = ended(command);
    let words: Vec<&str> = ended.stdout.trim().split('|').collect();
    let [name, token, holder, store] = words[..] else { panic!("{ended:?}") };
    assert_eq!((name, store), ("a name", place.url.as_str()));
    assert!(token.parse::<u64>().unwrap() > 0);
    let (client, attempt) = holder.split_once('-').unwrap();
    assert!(client.len() == 32 && attempt.parse::<u64>().is_ok(), "{holder}");
}

fn a_busy_lock_is_75_or_whatever_was_asked_for(place: &Place) {
    let mut holder = place.holder("x", &["--label", "the \u{202e}holder"]);
    until("its label is known", || place.show("x")["holders"][0]["label"].is_string());
    let busy = place.end(&["run", "x", "--no-wait", "--", "touch", "ran"]);
    busy.assert_failed(75, "x is busy: held by");
    assert!(busy.stderr.contains("(the \\u{202e}holder)"), "{busy:?}");
    place.end(&["run", "x", "-n", "-E", "0", "--", "touch", "ran"]).assert_silent(0);
    place
        .end(&["run", "x", "-w", "1s", "-E", "9", "--", "touch", "ran"])
        .assert_failed(9, "still busy");
    place.end(&["run", "x", "-w", "1s", "--shared", "-q", "--", "touch", "ran"]).assert_silent(75);
    assert!(!place.path("ran").exists());
    holder.close_stdin();
    assert_eq!(holder.end().code, Some(0));
}

fn a_waiter_runs_when_the_holder_has_ended(place: &Place) {
    let mut holder = Background::fed(place.shell("x", &[], "echo held; cat; echo first >>log"));
    holder.line();
    let waiter = place.waiter("x", &["-v"], "echo second >>log");
    holder.close_stdin();
    let waiter = waiter.end();
    assert_eq!(waiter.code, Some(0), "{waiter:?}");
    assert_eq!(place.read("log"), "first\nsecond\n");
    for words in ["held after waiting", "token", "held for"] {
        assert!(waiter.stderr.contains(words), "{waiter:?}");
    }
}

fn the_command_is_looked_up_before_anything_is_acquired(place: &Place) {
    let _holder = place.holder("x", &[]);
    place.end(&["run", "x", "--", "no-such-command"]).assert_failed(127, "no-such-command");
    place.end(&["run", "x", "--", "./no/such/file"]).assert_failed(127, "./no/such/file");
    let script = place.end(&["run", "x", "--", "cd / && ls"]);
    script.assert_failed(127, "no such file: for a shell, write sh -c");
    place.end(&["run", "x", "--", "/etc/passwd"]).assert_failed(126, "/etc/passwd");
    place.end(&["run", "x", "-q", "--", "/"]).assert_failed(126, "/");
}

fn what_the_command_leaves_behind_may_finish_and_is_then_ended(place: &Place) {
    let script = "(sleep 0.1; echo finished >log) & exec true";
    ended(place.shell("x", &["-q", "--kill-after", "15s"], script)).assert_silent(0);
    assert_eq!(place.read("log"), "finished\n");
    let script = "exec 2>/dev/null
        (trap 'echo told >>log; exit' TERM; >listens; while :; do sleep 0.05; done) &
        until [ -e listens ]; do sleep 0.01; done; exit 3";
    let left = ended(place.shell("x", &["--kill-after", "4s"], script));
    assert_eq!((left.code, left.stderr.lines().count()), (Some(3), 2), "{left:?}");
    assert_eq!(place.read("log"), "finished\ntold\n");
}

#[test]
fn a_pipe_ends_when_the_command_closes_it() {
    let place = Place::on_file();
    let mut running = Background::fed(place.shell("x", &[], "exec >&-; cat >/dev/null"));
    // Only the end of the pipe ends this test: the command runs until its stdin ends.
    assert_eq!(running.line(), "");
    running.close_stdin();
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn a_lock_that_cannot_be_let_go_for_want_of_a_right_is_said_in_one_line() {
    let place = Place::on_redis();
    let mut running = Background::fed(place.shell("x", &[], "echo runs; cat"));
    assert_eq!(running.line(), "runs");
    let server = place.server.as_ref().unwrap();
    server.command::<()>("ACL SETUSER default -evalsha").unwrap();
    running.close_stdin();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stderr.matches("could not let go").count(), 1, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn without_a_label_others_see_which_command_holds_it_and_never_its_arguments() {
    let place = Place::on_file();
    let label = |name: &str| place.show(name)["holders"][0]["label"].clone();
    let mut run = place.holder("a", &[]);
    assert_eq!(label("a"), "sh");
    let mut command = place.shell("b", &[], "echo held; cat");
    let mut in_pod = Background::fed({
        command.env("POD_NAME", "web-0");
        command
    });
    assert_eq!(in_pod.line(), "held");
    assert_eq!(label("b"), "sh in web-0");
    let script = format!("{PROGRAM} hold c; true");
    let mut hold = Background::fed(place.program("sh", &["-c", &script]));
    hold.line();
    assert_eq!(label("c"), "sh", "who holds it by `hold`");
    for holder in [&mut run, &mut in_pod, &mut hold] {
        holder.close_stdin();
    }
}
