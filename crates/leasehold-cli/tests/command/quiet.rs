//! What `-q` silences, and what it does not: nobody checks the exit code of a nightly job.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::thread;

use rustix::io::ioctl_fionbio;

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

#[test]
fn a_command_that_outlives_its_ttl_is_told_once_that_a_restart_forgets_its_lock() {
    let place = Place::on_redis();
    let is_long = || place.show("x")["holders"][0]["held_seconds"].as_f64() > Some(5.0);
    for (options, told) in [(&["--ttl", "4s"][..], true), (&["-q", "--ttl", "4s"], false)] {
        let mut holder = place.holder("x", options);
        if told {
            let line = holder.error_line();
            assert!(line.contains("x: warning: ") && line.contains("a restart forgets"), "{line}");
        }
        until("it was renewed", is_long);
        holder.close_stdin();
        holder.end().assert_silent(0);
    }
}

/// A pipe without room.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

#[test]
fn a_stderr_that_nobody_reads_delays_no_renewal_and_gets_its_lines_when_somebody_does() {
    let place = Place::on_redis();
    let is_long = || place.show("x")["holders"][0]["held_seconds"].as_f64() > Some(5.0);
    for options in [&["--ttl", "2s"][..], &["--ttl", "2s", "-v"]] {
        let (mut reader, writer) = full_pipe();
        let mut command = place.shell("x", options, "echo held; cat");
        command.stderr(writer);
        let mut holder = Background::fed(command);
        assert_eq!(holder.line(), "held");
        until("it was renewed", is_long);
        let reading = thread::spawn(move || io::read_to_string(&mut reader).unwrap());
        holder.close_stdin();
        holder.end().assert_silent(0);
        let told = reading.join().unwrap();
        assert!(told.contains("a restart forgets"), "{}", told.trim_start());
    }
}

#[test]
fn a_stderr_that_nobody_reads_keeps_no_command_from_ending() {
    let place = Place::on_file();
    let (_reader, writer) = full_pipe();
    let mut command = place.leasehold(&["run", "x", "-v", "--", "sh", "-c", "exit 7"]);
    command.stderr(writer);
    Background::start(command).end().assert_silent(7);
}

fn a_lease_that_is_lost_is_told_of_also_quietly(place: &Place) {
    let mut running = place.holder("x", &["-q"]);
    place.revoke("x", &[]);
    let told = running.error_line(); // before its end is asked for
    assert!(told.contains("revoked") && running.end().code == Some(76), "{told}");
}

fn a_command_that_is_ended_at_its_limit_is_told_of_also_quietly(place: &Place) {
    let options = ["-q", "--max-hold", "1s"];
    ended(place.shell("x", &options, "exec sleep 600")).assert_failed(76, "is over");
}

fn a_busy_lock_that_was_called_a_success_is_not_told_of(place: &Place) {
    let holder = place.holder("x", &[]);
    place.end(&["run", "x", "-n", "-E", "0", "--", "true"]).assert_silent(0);
    place.end(&["run", "x", "-w", "100ms", "-E", "0", "--", "true"]).assert_silent(0);
    place.end(&["run", "x", "-n", "-q", "--", "true"]).assert_silent(75);
    let asked = place.end(&["run", "x", "-n", "-E", "0", "-v", "--", "true"]);
    assert!(asked.stderr.contains("x is busy"), "{asked:?}");
    holder.end().assert_ended(0);
}
