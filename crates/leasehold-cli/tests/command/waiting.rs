//! Waiters learn why they wait, and so do callers that do not get the lock.

use std::pin::pin;

use futures_util::FutureExt as _;
use leasehold::store::redis_wire::Script;
use leasehold_testkit::proxy::{Fault, Proxy};
use leasehold_testkit::{RedisServer, three_nodes};
use rustix::process::Signal;

use crate::harness::{Background, Place, until};

on_each_store!(
    who_waits_is_told_by_a_line_who_holds_the_lock,
    who_stands_for_election_or_holds_for_a_script_is_told_as_well,
    who_wants_to_be_told_nothing_waits_in_silence,
    a_reader_is_told_of_the_writer_that_waits_before_it,
    of_several_holders_one_is_named_and_the_others_are_counted,
    of_several_names_the_one_that_is_in_the_way_is_named,
    a_name_in_cooldown_is_said_to_be_so,
);

on_postgres!(who_waits_is_told_by_a_line_who_holds_the_lock);

fn interrupted(waiter: Background) -> String {
    waiter.signal(Signal::INT);
    let ended = waiter.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    ended.stderr
}

fn who_waits_is_told_by_a_line_who_holds_the_lock(place: &Place) {
    let _holder = place.holder("x", &["--label", "the first"]);
    let mut waiter = Background::start(place.shell("x", &[], "true"));
    let line = waiter.error_line();
    assert!(line.starts_with("leasehold: waiting for x, held by "), "{line}");
    assert!(line.contains("(the first) for ") && line.ends_with("; next in line"), "{line}");
    let left = interrupted(waiter);
    assert_eq!(left, "leasehold: x: SIGINT while waiting: left the queue\n");
}

fn who_stands_for_election_or_holds_for_a_script_is_told_as_well(place: &Place) {
    let _holder = place.holder("x", &[]);
    let elect = place.leasehold(&["elect", "x", "--value", "v", "--", "true"]);
    for command in [elect, place.leasehold(&["hold", "x"])] {
        let mut waiter = Background::start(command);
        let line = waiter.error_line();
        assert!(line.starts_with("leasehold: waiting for x, held by "), "{line}");
        assert!(interrupted(waiter).contains("left the queue"));
    }
}

/// The renewal after a hand-over is held back until the claim window of the lease is over. A waiter
/// whose inbox is not open yet learns of its grant by an answer and renews nothing. Then the next
/// waiter is tried.
#[test]
fn a_lock_that_is_lost_before_the_command_has_begun_is_waited_for_again() {
    let holders = Place::on_redis();
    let proxy = Proxy::start(holders.server.as_ref().unwrap().port()).unwrap();
    let waiters = Place::at(format!("{}?timeout=300ms", proxy.url()));
    let mut lost = pin!(proxy.strike(1, Script::Keep, Fault::HoldRequest).happened());
    until("a lease was lost", || {
        let mut holder = holders.holder("x", &[]);
        let mut waiter = Background::start(waiters.shell("x", &[], "echo runs"));
        waiter.error_line();
        holder.close_stdin();
        assert_eq!(waiter.line(), "runs");
        assert_eq!(waiter.end().code, Some(0));
        lost.as_mut().now_or_never().is_some()
    });
}

fn who_wants_to_be_told_nothing_waits_in_silence(place: &Place) {
    let _holder = place.holder("x", &[]);
    place.end(&["run", "x", "-q", "-w", "3s", "--", "true"]).assert_silent(75);
}

fn a_reader_is_told_of_the_writer_that_waits_before_it(place: &Place) {
    let _reader = place.holder("x", &["--shared"]);
    let writer = place.waiter("x", &["-q"], "true");
    let busy = place.end(&["run", "x", "--shared", "-n", "--", "true"]);
    let words = format!(":{} waits before it, to be alone with it, for ", writer.pid());
    busy.assert_failed(75, &words);
    assert!(busy.stderr.contains(", held by "), "{busy:?}");
}

fn of_several_holders_one_is_named_and_the_others_are_counted(place: &Place) {
    let _holders = [(); 3].map(|()| place.holder("p", &["--permits", "1/3"]));
    let ask = |how: &[&str]| {
        let words = [&["run", "p", "--permits", "1/3"], how, &["--", "true"]].concat();
        place.end(&words)
    };
    for (how, words) in [(&["-n"][..], "is busy: held by "), (&["-w", "1s"], "still busy")] {
        let busy = ask(how);
        busy.assert_failed(75, words);
        assert!(busy.stderr.ends_with(" and 2 more\n"), "{busy:?}");
    }
}

fn of_several_names_the_one_that_is_in_the_way_is_named(place: &Place) {
    let _holder = place.holder("b", &[]);
    let mut waiter = Background::start(place.leasehold(&["run", "c", "b", "a", "--", "true"]));
    let line = waiter.error_line();
    assert!(line.starts_with("leasehold: waiting for b, held by "), "{line}");
    let left = interrupted(waiter);
    assert_eq!(left, "leasehold: c b a: SIGINT while waiting: left the queue\n");
}

fn a_name_in_cooldown_is_said_to_be_so(place: &Place) {
    let first = Background::start(place.shell("x", &["--min-hold", "10m"], "true"));
    let pid = first.pid();
    first.end().assert_silent(0);
    for how in [&["-n"][..], &["-w", "1s"]] {
        let busy = place.end(&[&["run", "x"], how, &["--", "true"]].concat());
        busy.assert_failed(75, &format!(":{pid} (sh), which has ended"));
        assert!(busy.stderr.contains("in cooldown for another 9m"), "{busy:?}");
        assert!(busy.stderr.contains("by --min-hold of "), "{busy:?}");
    }
    let mut waiter = Background::start(place.shell("x", &[], "true"));
    let line = waiter.error_line();
    assert!(line.contains("waiting for x, in cooldown for another 9m"), "{line}");
    let listed = place.end(&["ls"]).stdout;
    assert!(listed.contains("cooldown of "), "{listed}");
    let shown = place.end(&["show", "x"]).stdout;
    assert!(shown.contains(&format!(":{pid} (ended)")), "{shown}");
}

/// Checks that a waiter on this store prints one line about the trouble, also if a limit ends the
/// wait. There was no queue to leave.
#[track_caller]
fn assert_trouble(place: &Place, words: &str) {
    let mut waiter = Background::start(place.shell("x", &[], "true"));
    let line = waiter.error_line();
    assert!(line.starts_with("leasehold: waiting for x: ") && line.contains(words), "{line}");
    assert_eq!(interrupted(waiter), "leasehold: x: SIGINT while waiting: gave up\n");
    place.end(&["run", "x", "-q", "-w", "5s", "--", "true"]).assert_failed(69, words);
}

#[test]
fn who_waits_for_the_end_of_a_quarantine_is_told_what_ends_it() {
    let place = Place::on_redis_with("quarantine=on");
    assert_trouble(&place, "`leasehold end-quarantine`");
    // This wait ends before it is worth a remark.
    let short = place.end(&["run", "x", "-w", "1s", "--", "true"]);
    short.assert_failed(69, "`leasehold end-quarantine`");
}

#[test]
fn who_waits_for_the_quarantine_of_a_quorum_is_told_what_ends_it_in_one_line() {
    let (_servers, url) = three_nodes("quarantine=on&timeout=5s");
    assert_trouble(&Place::at(url), "`leasehold end-quarantine`");
}

#[test]
fn who_waits_for_replicas_is_told_how_many_are_missing() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}?replicas=1&timeout=2s", server.url());
    let place = Place { directory: tempfile::tempdir().unwrap(), server: Some(server), url };
    assert_trouble(&place, "0 of 1 replicas had the grant");
}

#[test]
fn who_waits_for_a_quorum_is_told_how_many_nodes_are_missing() {
    let (mut servers, url) = three_nodes("quarantine=off");
    let place = Place::at(url);
    place.end(&["run", "x", "--", "true"]).assert_silent(0);
    let _holder = place.holder("x", &[]);
    let mut waiter = Background::start(place.shell("x", &[], "true"));
    let line = waiter.error_line();
    assert!(line.starts_with("leasehold: waiting for x, held by "), "{line}");
    servers[1..].iter_mut().for_each(|server| server.kill9().unwrap());
    let line = waiter.error_line();
    assert!(line.contains("of 3 nodes granted the name and 2 are needed"), "{line}");
    assert_eq!(interrupted(waiter), "leasehold: x: SIGINT while waiting: gave up\n");
}

#[test]
fn who_waits_is_told_when_the_server_is_away_and_when_it_is_back() {
    let mut place = Place::on_redis();
    let server = place.server.as_mut().unwrap();
    *server = RedisServer::options().append_only("always").start().unwrap();
    place.url = place.server.as_ref().unwrap().url();
    let _holder = place.holder("x", &["--ttl", "10m"]);
    let mut waiter = Background::start(place.shell("x", &[], "true"));
    let held = waiter.error_line();
    assert!(held.starts_with("leasehold: waiting for x, held by "), "{held}");
    let server = place.server.as_mut().unwrap();
    server.kill9().unwrap();
    let away = waiter.error_line();
    assert!(away.contains(&format!("127.0.0.1:{}: ", server.port())), "{away}");
    server.restart(leasehold_testkit::Data::Kept).unwrap();
    // The kind of trouble may change before it is over.
    let mut back = waiter.error_line();
    while !back.starts_with("leasehold: waiting for x, held by ") {
        back = waiter.error_line();
    }
    assert!(interrupted(waiter).contains("left the queue"));
}

#[test]
fn a_store_that_is_full_is_told_of_at_once_and_not_waited_for() {
    let place = Place::on_redis();
    place.server.as_ref().unwrap().command::<()>("CONFIG SET maxmemory 1").unwrap();
    place.end(&["run", "x", "--", "true"]).assert_failed(69, "memory");
    place.end(&["run", "x", "-w", "10m", "--", "true"]).assert_failed(69, "memory");
}
