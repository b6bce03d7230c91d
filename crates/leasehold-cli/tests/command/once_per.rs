//! A job that is wanted once a night: who runs it, and when it runs again.

use rustix::process::Signal;

use leasehold_testkit::clock;

use crate::harness::{Background, Ended, PROGRAM, Place, ended, until};

macro_rules! on_all_stores {
    ($($name:ident),* $(,)?) => {
        on_each_store!($($name),*);
        on_postgres!($($name),*);
    };
}

on_all_stores!(
    a_machine_that_boots_late_is_told_who_did_it_and_does_nothing,
    of_two_machines_that_start_together_one_runs_it_and_the_other_is_told,
    the_clock_of_the_store_decides_though_that_of_a_machine_is_off_by_an_hour,
    a_job_that_failed_is_run_at_once_when_it_is_started_again,
    a_job_that_was_killed_in_the_middle_is_run_again,
    a_job_that_was_revoked_or_took_too_long_is_run_again,
    a_job_that_takes_longer_than_its_span_is_run_whenever_it_is_started,
);

const HOUR: &[&str] = &["--once-per", "1h"];

fn job(place: &Place, options: &[&str], script: &str) -> Ended {
    ended(place.shell("nightly", options, script))
}

fn assert_ran(place: &Place, options: &[&str]) {
    let ran = job(place, options, "echo ran");
    ran.assert_silent(0);
    assert_eq!(ran.stdout, "ran\n");
}

/// Checks that it was left out, and that the line says by whom it was done.
#[track_caller]
fn assert_done(skipped: &Ended, by: &str) {
    skipped.assert_failed(0, "leasehold: nightly: done ");
    assert!(skipped.stderr.contains(by), "{by}: {skipped:?}");
    assert!(skipped.stderr.contains("; next from "), "{skipped:?}");
    assert_eq!(skipped.stdout, "");
}

fn a_machine_that_boots_late_is_told_who_did_it_and_does_nothing(place: &Place) {
    assert_ran(place, HOUR);
    let last = place.show("nightly")["last"].clone();
    let by = format!("{}:{} (sh), token {}", last["host"], last["pid"], last["token"]);
    let by = by.replace('"', "");
    assert_done(&job(place, HOUR, "echo ran"), &by);
    assert_done(&job(place, &["-n", "--once-per", "20h"], "echo ran"), &by);
    job(place, &["-E", "7", "--once-per", "1h"], "echo ran").assert_failed(7, &by);
    job(place, &["-q", "--once-per", "1h"], "echo ran").assert_silent(0);
    assert_eq!(place.show("nightly")["last"]["token"], last["token"]);
    until("its span is over", || job(place, &["--once-per", "2s"], "echo ran").stdout == "ran\n");
}

fn of_two_machines_that_start_together_one_runs_it_and_the_other_is_told(place: &Place) {
    let mut one = place.holder("nightly", HOUR);
    let (pid, other) = (one.pid(), place.waiter("nightly", HOUR, "echo ran"));
    one.close_stdin();
    one.end().assert_silent(0);
    assert_done(&other.end(), &format!(":{pid} (sh), token "));
}

fn the_clock_of_the_store_decides_though_that_of_a_machine_is_off_by_an_hour(place: &Place) {
    // The clock of a file store is that of its only machine.
    let span = if place.url.starts_with("file:") { "20h" } else { "30m" };
    let at = |ahead_s| {
        clock::set(place.directory.path(), ahead_s, 1.0).unwrap();
        let machine = clock::environment(place.directory.path()).unwrap();
        let script = [PROGRAM, "run", "nightly", "--once-per", span, "--", "echo", "ran"];
        let words = [&machine.each_ref().map(String::as_str)[..], &script].concat();
        ended(place.program("env", &words))
    };
    assert_eq!(at(-3600.0).stdout, "ran\n");
    for ahead_s in [0.0, 3600.0, -3600.0] {
        assert_done(&at(ahead_s), " (echo), token ");
    }
}

fn a_job_that_failed_is_run_at_once_when_it_is_started_again(place: &Place) {
    job(place, HOUR, "exit 3").assert_silent(3);
    job(place, HOUR, "kill -TERM $$").assert_ended(143);
    assert_ran(place, HOUR);
    assert_done(&job(place, HOUR, "exit 3"), "token");
}

fn a_job_that_was_killed_in_the_middle_is_run_again(place: &Place) {
    let running = place.holder("nightly", &["--ttl", "1s", "--once-per", "1h"]);
    running.signal(Signal::KILL);
    assert_eq!(running.end().signal, Some(Signal::KILL.as_raw()));
    assert_eq!(job(place, HOUR, "echo ran").stdout, "ran\n");
}

fn a_job_that_was_revoked_or_took_too_long_is_run_again(place: &Place) {
    let script = "trap 'exit 0' TERM; echo held; sleep 600 & wait";
    let mut revoked = Background::start(place.shell("nightly", HOUR, script));
    assert_eq!(revoked.line(), "held");
    place.revoke("nightly", &[]);
    revoked.end().assert_ended(76);
    let options = [HOUR, &["--max-hold", "200ms"]].concat();
    job(place, &options, script).assert_ended(76);
    assert_ran(place, HOUR);
}

fn a_job_that_takes_longer_than_its_span_is_run_whenever_it_is_started(place: &Place) {
    let span = ["--once-per", "100ms"];
    job(place, &span, "sleep 0.2").assert_silent(0);
    assert_ran(place, &span);
}

#[test]
fn once_in_a_while_is_for_one_name_that_is_held_alone() {
    let place = Place::on_file();
    for other in [&["b"][..], &["--shared"], &["--permits", "1/2"]] {
        job(&place, &[HOUR, other].concat(), "echo ran").assert_failed(2, "a mutex of one name");
    }
}
