//! What `-q` silences, and what it does not: nobody checks the exit code of a nightly job.

use crate::harness::{Background, Place, ended, until};

on_each_store!(
    a_lease_that_is_lost_is_told_of_also_quietly,
    a_command_that_is_ended_at_its_limit_is_told_of_also_quietly,
    a_busy_lock_that_was_called_a_success_is_not_told_of,
);

#[test]
fn what_went_wrong_is_told_of_also_quietly() {
    let mut place = Place::on_file();
    let quiet = |place: &Place, command: &str| {
        place.end(&["run", "x", "-n", "-E", "0", "-q", "--", command])
    };
    quiet(&place, "./no-such-script").assert_failed(127, "./no-such-script");
    place.url = "redis://127.0.0.1:1/".to_owned();
    quiet(&place, "true").assert_failed(69, "nothing listens there");
    place.url = "nonsense".to_owned();
    quiet(&place, "true").assert_failed(2, "no scheme that is known");
}

fn a_lease_that_is_lost_is_told_of_also_quietly(place: &Place) {
    let mut running = Background::start(place.shell("x", &["-q"], "echo runs; exec sleep 600"));
    assert_eq!(running.line(), "runs");
    let token = place.token("x").unwrap();
    place.end(&["revoke", "x", &token]).assert_silent(0);
    running.end().assert_failed(76, "revoked");
}

fn a_command_that_is_ended_at_its_limit_is_told_of_also_quietly(place: &Place) {
    let options = ["-q", "--max-hold", "1s"];
    ended(place.shell("x", &options, "exec sleep 600")).assert_failed(76, "is over");
}

fn a_busy_lock_that_was_called_a_success_is_not_told_of(place: &Place) {
    let mut holder = place.holder("x", &[]);
    place.end(&["run", "x", "-n", "-E", "0", "--", "true"]).assert_silent(0);
    place.end(&["run", "x", "-w", "100ms", "-E", "0", "--", "true"]).assert_silent(0);
    place.end(&["run", "x", "-n", "-q", "--", "true"]).assert_silent(75);
    let asked = place.end(&["run", "x", "-n", "-E", "0", "-v", "--", "true"]);
    assert!(asked.stderr.contains("x is busy"), "{asked:?}");
    holder.close_stdin();
    until("it is free", || place.token("x").is_none());
}
