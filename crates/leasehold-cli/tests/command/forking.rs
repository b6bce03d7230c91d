//! A process that forks a copy of itself and ends, again and again, does not outlive the lease.

use std::process::{Child, Command};

use rustix::process::Signal;

use crate::descendants::{assert_was_alone, next_holder};
use crate::harness::{Background, Place, until};

/// Ignores TERM. Notes the time, sleeps, forks and ends, again and again, for 20 s at most: if the
/// test fails, it must not fill the machine with processes.
const RUNAWAY: &str = r#"
    use Time::HiRes qw(time);
    $SIG{TERM} = "IGNORE";
    my ($pause, $makes_groups) = @ARGV;
    my $end = time + 20;
    open my $beats, ">>", "beats";
    while (time < $end) {
        exit 0 if fork;
        setpgrp if $makes_groups;
        syswrite $beats, sprintf("%.0f\n", time * 1e9);
        select undef, undef, undef, $pause;
    }"#;

/// The pauses of a runaway, in seconds.
const PAUSES: [&str; 3] = ["0.0003", "0.005", "0.02"];

/// Processes that only make each look at the machine's processes longer.
struct Bystanders(Vec<Child>);

impl Bystanders {
    fn start(count: usize) -> Self {
        let sleep = |_| Command::new("sleep").arg("1000").spawn().unwrap();
        Self((0..count).map(sleep).collect())
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Starts a runaway under a lease, ends the lease, and checks that the next holder is alone.
fn check(script_ends_by_itself: bool, end: impl Fn(&Background)) {
    // With many bystanders, only what forks fastest can get ahead of the looks.
    for (count, pauses) in [(10, &PAUSES[..]), (200, &PAUSES[..1])] {
        let _bystanders = Bystanders::start(count);
        for (pause, makes_groups) in pauses.iter().flat_map(|it| [(it, ""), (it, "1")]) {
            let place = Place::on_file();
            let rest = if script_ends_by_itself { "sleep 0.3" } else { "exec sleep 1000" };
            let script = format!("perl -e \"$RUNAWAY\" {pause} {makes_groups}; {rest}");
            let options = ["--kill-after", "300ms"];
            let mut command = place.shell("x", &options, &script);
            command.env("RUNAWAY", RUNAWAY);
            let holder = Background::start(command);
            eprintln!("{count} bystanders, {pause} {makes_groups}");
            until("it forks", || place.read("beats").lines().count() > 5);
            let next = next_holder(&place);
            end(&holder);
            assert_was_alone(&place, next);
            let beats = place.read("beats").len();
            place.end(&["run", "x", "-n", "--", "sleep", "0.1"]).assert_silent(0);
            assert_eq!(place.read("beats").len(), beats);
        }
    }
}

#[test]
fn what_forks_and_ends_again_and_again_ends_when_leasehold_is_asked_to_end() {
    check(false, |holder| holder.signal(Signal::TERM));
}

#[test]
fn what_forks_and_ends_again_and_again_ends_when_leasehold_is_killed() {
    check(false, |holder| holder.signal(Signal::KILL));
}

#[test]
fn what_forks_and_ends_again_and_again_ends_after_the_script_that_started_it() {
    check(true, |_holder| {});
}
