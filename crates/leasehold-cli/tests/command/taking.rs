//! `take`, `give` and `renew`: a lease that outlives the command that took it.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Background, Ended, PROGRAM, Place, ended, is_gone, json, until};
use crate::peers::script;

on_each_store!(
    what_is_taken_is_held_until_it_is_given_and_given_once,
    several_names_are_taken_and_given_together,
    who_takes_what_is_busy_waits_or_is_told_so,
    what_is_taken_ends_at_its_time_which_can_be_moved,
    what_is_taken_ends_with_the_process_that_it_was_taken_for,
    a_holder_process_that_was_killed_is_given_back_for_at_the_store,
    a_lease_that_was_taken_away_is_logged_and_told_on_give,
    a_user_who_stops_waiting_leaves_no_holder_process_behind,
    a_holder_process_that_is_ended_says_so_in_its_log,
    others_see_until_when_and_by_whom_it_is_taken,
    what_is_taken_keeps_no_file_of_its_caller_open,
);

on_postgres!(
    what_is_taken_is_held_until_it_is_given_and_given_once,
    several_names_are_taken_and_given_together,
);

/// The arguments of `take`, with a log in the directory of the store.
fn take(place: &Place, arguments: &[&str]) -> Command {
    let log = place.path("log").display().to_string();
    place.leasehold(&[&["take", "--log", &log], arguments].concat())
}

#[track_caller]
fn taken(place: &Place, arguments: &[&str]) -> String {
    let taken = ended(take(place, arguments));
    taken.assert_silent(0);
    let handle = taken.stdout.trim_end();
    assert!(!handle.is_empty() && !handle.contains(char::is_whitespace), "{taken:?}");
    handle.to_owned()
}

fn give(place: &Place, handle: &str) -> Ended {
    place.end(&["give", handle])
}

fn is_held(place: &Place, name: &str) -> bool {
    place.token(name).is_some()
}

/// The process that renews a lease.
fn holder_process(place: &Place, name: &str) -> Pid {
    let pid = place.show(name)["holders"][0]["pid"].as_i64().unwrap();
    Pid::from_raw(pid as i32).unwrap()
}

#[track_caller]
fn assert_ends(process: Pid) {
    until("the holder process ends", || is_gone(process));
}

fn what_is_taken_is_held_until_it_is_given_and_given_once(place: &Place) {
    let handle = taken(place, &["a", "--for", "1h", "--label", "freeze"]);
    let process = holder_process(place, "a");
    assert_eq!(
        place.show("a")["holders"][0]["label"].as_str().unwrap().split(';').next(),
        Some("freeze")
    );
    place.end(&["run", "a", "-n", "--", "true"]).assert_failed(75, "a is busy: held by");
    give(place, &handle).assert_silent(0);
    assert!(!is_held(place, "a"), "given back before give ends");
    assert_ends(process);
    assert_eq!(place.read("log"), "", "nothing was lost");
    give(place, &handle).assert_failed(76, "given back already");
    let again = taken(place, &["a", "--for", "1h"]);
    give(place, &handle).assert_failed(76, "and is held by");
    assert!(is_held(place, "a"), "an old handle does not touch the next lease");
    give(place, &again).assert_silent(0);
}

fn several_names_are_taken_and_given_together(place: &Place) {
    let handle = taken(place, &["b", "a", "--for", "1h"]);
    assert!(is_held(place, "a") && is_held(place, "b"));
    for name in ["a", "b"] {
        let label = place.show(name)["holders"][0]["label"].as_str().unwrap().to_owned();
        assert!(label.starts_with("until "), "{name}: {label}");
    }
    give(place, &handle).assert_silent(0);
    assert!(!is_held(place, "a") && !is_held(place, "b"));
}

fn who_takes_what_is_busy_waits_or_is_told_so(place: &Place) {
    let first = taken(place, &["a", "--for", "1h"]);
    ended(take(place, &["a", "--for", "1h", "-n"])).assert_failed(75, "a is busy: held by");
    ended(take(place, &["a", "--for", "1h", "-n", "-E", "3"])).assert_failed(3, "a is busy");
    // As from two terminals at the same time: the second gets it when the first gives it back.
    let second = Background::start(take(place, &["a", "--for", "1h", "-q"]));
    until("the second waits", || place.show("a")["waiting"] == 1);
    give(place, &first).assert_silent(0);
    let second = second.end();
    second.assert_silent(0);
    give(place, second.stdout.trim_end()).assert_silent(0);
}

fn what_is_taken_ends_at_its_time_which_can_be_moved(place: &Place) {
    let handle = taken(place, &["a", "--for", "1h"]);
    let process = holder_process(place, "a");
    place.end(&["renew", &handle, "--for", "2h"]).assert_silent(0);
    assert!(is_held(place, "a"));
    place.end(&["renew", &handle, "--for", "100ms"]).assert_silent(0);
    until("it is over", || !is_held(place, "a"));
    assert_ends(process);
    let log = place.read("log");
    assert!(log.trim_end().ends_with(": --for is over") && log.contains("a: let go of"), "{log}");
    place.end(&["renew", &handle, "--for", "1h"]).assert_failed(76, "has ended before");
    taken(place, &["a", "--for", "300ms"]);
    until("the next is over, too", || !is_held(place, "a"));
}

fn what_is_taken_ends_with_the_process_that_it_was_taken_for(place: &Place) {
    let mut owner = Background::fed(place.program("cat", &[]));
    let pid = owner.pid().as_raw_nonzero().to_string();
    taken(place, &["a", "--pid", &pid]);
    let process = holder_process(place, "a");
    let mut hold = Background::fed(place.leasehold(&["hold", "h", "i", "--pid", &pid]));
    let line = json(&hold.line());
    let tokens = ["h", "i"].map(|name| place.token(name).unwrap());
    assert_eq!([0, 1].map(|at| line["names"][at]["token"].clone()), tokens);
    assert!(is_held(place, "a"));
    owner.close_stdin();
    owner.end();
    until("it is given back", || !is_held(place, "a"));
    assert_ends(process);
    assert_eq!(hold.end().code, Some(0), "as hold does");
    ended(take(place, &["a", "--pid", &pid])).assert_failed(2, "there is no such process");
}

fn a_holder_process_that_was_killed_is_given_back_for_at_the_store(place: &Place) {
    let handle = taken(place, &["a", "--for", "1h", "--ttl", "10m"]);
    let process = holder_process(place, "a");
    kill_process(process, Signal::KILL).unwrap();
    assert_ends(process);
    if place.server.is_some() {
        assert!(is_held(place, "a"), "for the rest of its ttl");
        place
            .end(&["renew", &handle, "--for", "1h"])
            .assert_failed(2, "if that process was killed, take the lease again");
        let elsewhere = format!("file:{}", place.path("other.db").display());
        place
            .end(&["give", &handle, "-s", &elsewhere])
            .assert_failed(2, "it was taken in the store");
        give(place, &handle).assert_silent(0);
    }
    // In a file store, the lease ends with its process.
    until("it is free", || !is_held(place, "a"));
    give(place, &handle).assert_failed(76, "has ended before");
}

fn a_lease_that_was_taken_away_is_logged_and_told_on_give(place: &Place) {
    let handle = taken(place, &["a", "--for", "1h"]);
    let (process, token) = (holder_process(place, "a"), place.token("a").unwrap());
    place.end(&["revoke", "a", &token]).assert_silent(0);
    assert_ends(process);
    let log = place.read("log");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains(&format!("a: lost the lease with token {token}: ")), "{log}");
    assert!(log.contains(" too early"), "{log}");
    give(place, &handle).assert_failed(76, "or was lost");
}

fn a_user_who_stops_waiting_leaves_no_holder_process_behind(place: &Place) {
    let mut other = place.holder("a", &[]);
    for signal in [Signal::INT, Signal::KILL] {
        let waiting = Background::start(take(place, &["a", "--for", "1h", "-q"]));
        until("it waits", || place.show("a")["waiting"] == 1);
        waiting.signal(signal);
        let ended = waiting.end();
        assert_eq!(ended.signal, Some(signal.as_raw()), "{ended:?}");
        until("nobody waits", || place.show("a")["waiting"] == 0);
    }
    other.close_stdin();
    until("it is free", || !is_held(place, "a"));
}

fn what_is_taken_keeps_no_file_of_its_caller_open(place: &Place) {
    let take = "$0 take a --for 1h --log log";
    let script = format!("exec 9>file; flock 9; {take}; exec 9>&-; flock -n file echo free");
    let taken = ended(place.program("bash", &["-c", &script, PROGRAM]));
    taken.assert_silent(0);
    let (handle, free) = taken.stdout.trim_end().split_once('\n').unwrap();
    assert_eq!(free, "free");
    assert!(is_held(place, "a"));
    give(place, handle).assert_silent(0);
}

#[test]
fn the_log_of_a_lease_that_is_taken_may_be_a_pipe_to_a_program() {
    let place = Place::on_file();
    let script = "$0 take a --for 1h --log >(cat >log 2>&1)";
    let taken = ended(place.program("bash", &["-c", script, PROGRAM]));
    taken.assert_silent(0);
    give(&place, taken.stdout.trim_end()).assert_silent(0);
}

#[test]
fn a_handle_that_nobody_read_holds_nothing() {
    let place = Place::on_file();
    let said = script(&place, "$LEASEHOLD take a --for 1h --log log >/dev/full; echo $?");
    assert_eq!(said.stdout, "1\n", "{said:?}");
    until("it is let go", || !is_held(&place, "a"));
}

#[test]
fn a_pipeline_around_take_ends_although_the_lease_goes_on() {
    let place = Place::on_file();
    let said = script(&place, "$LEASEHOLD take a --for 1h --log log 2>&1 | cat");
    assert!(is_held(&place, "a"), "{said:?}");
    give(&place, said.stdout.trim_end()).assert_silent(0);
}

#[test]
fn what_cannot_be_taken_or_given_is_said_with_the_remedy() {
    let place = Place::on_file();
    let take = |arguments: &[&str]| ended(take(&place, arguments));
    take(&["a"]).assert_failed(2, "--for");
    take(&["a", "--for", "0s"]).assert_failed(2, "over before it has begun");
    take(&["a", "--pid", "x"]).assert_failed(2, "--pid $$");
    take(&["a", "--for", "1h", "--max-hold", "1h"]).assert_failed(2, "ends with --for");
    let nowhere = place.leasehold(&["take", "a", "--for", "1h", "--log", "/nowhere/log"]);
    ended(nowhere).assert_failed(2, "--log /nowhere/log");
    place.end(&["give", "17950221"]).assert_failed(2, "no handle");
    let handle = taken(&place, &["a", "--for", "1h"]);
    place.end(&["give", &handle[..handle.len() - 4]]).assert_failed(2, "damaged handle");
    place.end(&["renew", &handle]).assert_failed(2, "--for");
    give(&place, &handle).assert_silent(0);
}

fn a_holder_process_that_is_ended_says_so_in_its_log(place: &Place) {
    let handle = taken(place, &["a", "--for", "1h"]);
    let (process, token) = (holder_process(place, "a"), place.token("a").unwrap());
    kill_process(process, Signal::TERM).unwrap();
    assert_ends(process);
    let log = place.read("log");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains(&format!("a: let go of the lease with token {token}: SIGTERM")), "{log}");
    assert!(log.contains(" too early"), "{log}");
    give(place, &handle).assert_failed(76, "has ended before");
}

fn others_see_until_when_and_by_whom_it_is_taken(place: &Place) {
    let taken = ended(take(place, &["a", "--for", "3d", "--label", "freeze", "--json"]));
    let line = json(&taken.stdout);
    assert_eq!(line["names"][0]["name"], "a");
    assert_eq!(line["names"][0]["token"].as_str(), place.token("a").as_deref());
    assert!(line["until"].as_str().unwrap().ends_with('Z'), "{line}");
    let label = || place.show("a")["holders"][0]["label"].as_str().unwrap().to_owned();
    let user = ended(place.program("id", &["-un"])).stdout;
    until("the label is told", || label().starts_with("freeze; until "));
    let first = label();
    assert!(first.ends_with(&format!(", by {}", user.trim_end())), "{first}");
    place.end(&["run", "a", "-n", "--", "true"]).assert_failed(75, &first);
    let handle = line["handle"].as_str().unwrap();
    place.end(&["renew", handle, "--for", "5d"]).assert_silent(0);
    until("others see the new time", || label() != first);
    give(place, handle).assert_silent(0);
}

#[test]
fn give_of_a_lost_lease_says_so_without_any_store_configured_or_running() {
    let mut place = Place::on_redis();
    let url = place.url.clone();
    place.url = format!("file:{}", place.path("other.db").display());
    let in_server = ["--for", "1h", "--ttl", "3s", "-s", &url];
    let lost = taken(&place, &[&["a"], &in_server[..]].concat());
    let listed = place.end(&["show", "a", "-s", &url, "--json"]);
    let status = json(&listed.stdout);
    let token = status["holders"][0]["token"].as_str().unwrap();
    place.end(&["revoke", "a", "-s", &url, token]).assert_silent(0);
    until("the loss is known", || !place.read("log").is_empty());
    give(&place, &lost).assert_failed(76, "has ended before");
    // The same server under another name.
    let spelt = url.replace("127.0.0.1", "localhost");
    place.end(&["give", &lost, "-s", &spelt]).assert_failed(76, "has ended before");
    let away = taken(&place, &[&["b"], &in_server[..]].concat());
    drop(place.server.take());
    until("the next loss is known", || place.read("log").lines().count() == 2);
    give(&place, &away).assert_failed(76, "its holder process has ended");
}

#[test]
fn who_cannot_ask_the_holder_process_is_not_told_that_the_lease_is_lost() {
    let place = Place::on_file();
    let handle = taken(&place, &["a", "--for", "1h"]);
    let mut renew = place.leasehold(&["renew", &handle, "--for", "2h"]);
    // As another user would: with another runtime directory.
    renew.env_remove("XDG_RUNTIME_DIR");
    ended(renew).assert_failed(2, "it is held, but its holder process cannot be asked from here");
    assert!(is_held(&place, "a"));
    give(&place, &handle).assert_silent(0);
}

#[test]
fn without_a_place_for_its_socket_or_for_the_handle_nothing_is_taken() {
    let place = Place::on_file();
    let mut command = place.leasehold(&["take", "a", "--for", "1h", "--log", "log"]);
    command.env("XDG_RUNTIME_DIR", "/proc/nowhere");
    ended(command).assert_failed(69, "set XDG_RUNTIME_DIR to a directory");
    script(&place, "$LEASEHOLD take a --for 1h --log log >&-")
        .assert_failed(1, "stdout is closed, so nobody would get the handle");
    assert!(!is_held(&place, "a"));
    script(&place, "$LEASEHOLD take a --for 1h --log log >/dev/null").assert_silent(0);
    let process = holder_process(&place, "a");
    kill_process(process, Signal::TERM).unwrap();
    assert_ends(process);
}

#[test]
fn another_user_is_told_that_the_lease_is_held_and_who_can_renew_it() {
    if !rustix::process::geteuid().is_root() {
        return; // nobody else can become another user
    }
    let place = Place::on_redis();
    let handle = taken(&place, &["a", "--for", "1h"]);
    let other = ["--reuid=65534", "--clear-groups", PROGRAM];
    let as_other = |arguments: &[&str]| {
        let mut command = place.program("setpriv", &[&other, arguments].concat());
        command.current_dir("/");
        ended(command)
    };
    let renewed = as_other(&["renew", &handle, "--for", "2h"]);
    renewed.assert_failed(2, "it is held, but its holder process cannot be asked from here");
    assert!(renewed.stderr.contains("as root"), "{renewed:?}");
    as_other(&["give", &handle]).assert_silent(0);
    assert!(!is_held(&place, "a"));
}
