//! `leasehold elect`.

use rustix::process::Signal;

use crate::harness::{Background, Place, json, until};
use crate::peers::script;

on_each_store!(
    the_command_runs_while_leading_and_the_next_leads_when_it_has_ended,
    a_listener_is_told_of_every_change,
    nobody_leading_is_exit_code_1,
    without_a_command_it_leads_until_stdin_ends_or_a_signal_comes_or_it_is_lost,
    the_ready_file_says_who_stands_by_and_who_leads_and_is_gone_after_a_loss_and_at_the_end,
    the_ready_file_is_gone_if_leasehold_is_killed_or_stopped_while_its_command_runs,
);

on_postgres!(
    the_command_runs_while_leading_and_the_next_leads_when_it_has_ended,
    a_listener_is_told_of_every_change,
);

fn candidate(place: &Place, value: &str) -> Background {
    let arguments = ["elect", "e", "--value", value, "--", "sh", "-c", "echo leads; cat"];
    Background::fed(place.leasehold(&arguments))
}

fn shown(place: &Place) -> String {
    place.end(&["elect", "e", "--show"]).stdout
}

fn the_command_runs_while_leading_and_the_next_leads_when_it_has_ended(place: &Place) {
    let mut first = candidate(place, "one");
    assert_eq!(first.line(), "leads");
    let mut second = candidate(place, "two");
    until("somebody waits", || place.show("e")["waiting"] == 1);
    assert_eq!(shown(place), "one\n");
    first.close_stdin();
    assert_eq!(first.end().code, Some(0));
    assert_eq!(second.line(), "leads");
    assert_eq!(shown(place), "two\n");
    let json = json(&place.end(&["elect", "e", "--show", "--json"]).stdout);
    assert_eq!((&json["name"], &json["leader"]["value"]), (&"e".into(), &"two".into()));
    assert_eq!(json["leader"]["token"].as_str(), place.token("e").as_deref());
    let holder = &place.show("e")["holders"][0];
    for same in ["holder", "host", "pid"] {
        assert_eq!(json["leader"][same], holder[same], "{same}");
        assert!(!holder[same].is_null());
    }
    for span in ["held_seconds", "left_seconds"] {
        assert!(json["leader"][span].is_number(), "{json}");
    }
    assert!(json["leader"]["held_since"].is_string(), "{json}");
    second.close_stdin();
    assert_eq!(second.end().code, Some(0));
}

fn a_listener_is_told_of_every_change(place: &Place) {
    let mut listener = Background::start(place.leasehold(&["elect", "e", "--listen"]));
    assert_eq!(listener.line(), "e: nobody leads");
    let mut first = candidate(place, "one");
    assert!(listener.line().starts_with("e: one leads with token "));
    first.close_stdin();
    assert_eq!(first.end().code, Some(0));
    assert_eq!(listener.line(), "e: nobody leads");
    let mut json = Background::start(place.leasehold(&["elect", "e", "--listen", "--json"]));
    assert_eq!(json.line(), r#"{"name":"e","leader":null}"#);
}

#[test]
fn a_listener_is_told_once_that_the_store_is_away_and_once_that_it_is_back() {
    let mut place = Place::on_redis();
    let listen = ["elect", "e", "--listen", "--json", "-q"];
    let mut text = Background::start(place.leasehold(&listen[..3]));
    let mut lines = Background::start(place.leasehold(&listen));
    assert_eq!(text.line(), "e: nobody leads");
    assert_eq!(lines.line(), r#"{"name":"e","leader":null}"#);
    place.server.as_mut().unwrap().kill9().unwrap();
    let away = text.line();
    assert!(away.starts_with("e: the store is away: "), "{away}");
    let away = json(&lines.line());
    assert_eq!(away["change"], "away");
    assert!(away["why"].is_string() && away["at"].as_str().unwrap().ends_with('Z'), "{away}");
    place.server.as_mut().unwrap().restart(leasehold_testkit::Data::Kept).unwrap();
    // No other line comes in between, and then the leader, although it is nobody as before.
    assert_eq!(text.line(), "e: the store is back");
    assert_eq!(text.line(), "e: nobody leads");
    assert_eq!(json(&lines.line())["change"], "back");
    assert_eq!(lines.line(), r#"{"name":"e","leader":null}"#);
    let _leader = candidate(&place, "one");
    assert!(text.line().starts_with("e: one leads with token "));
    assert_eq!(json(&lines.line())["leader"]["value"], "one");
}

fn nobody_leading_is_exit_code_1(place: &Place) {
    let nobody = place.end(&["elect", "e", "--show"]);
    nobody.assert_silent(1);
    assert_eq!(nobody.stdout, "");
    place.end(&["elect", "e", "--show", "--json"]).assert_silent(1);
}

fn without_a_command_it_leads_until_stdin_ends_or_a_signal_comes_or_it_is_lost(place: &Place) {
    let leader = |value: &str| {
        let mut leader = Background::fed(place.leasehold(&["elect", "e", "--value", value]));
        let line = json(&leader.line());
        assert_eq!(line["name"], "e");
        assert_eq!(line["token"].as_str(), place.token("e").as_deref());
        assert_eq!(shown(place), format!("{value}\n"));
        leader
    };
    let mut first = leader("one");
    first.close_stdin();
    first.end().assert_silent(0);
    let mut second = leader("two");
    let _open = second.child().stdin.take();
    second.signal(Signal::TERM);
    second.end().assert_silent(0);
    let mut third = leader("three");
    let _open = third.child().stdin.take();
    place.revoke("e", &[]);
    third.end().assert_failed(76, "an operator revoked the lease");
    assert_eq!(place.end(&["elect", "e", "--show"]).code, Some(1));
}

/// Stands with a ready file. The command ignores TERM, so a loss is over before the process is.
fn stand(place: &Place, file: &str) -> Background {
    let arguments = ["elect", "e", "--value", file, "--ready-file", file, "-q", "--ttl", "12s"];
    let deaf = ["--kill-after", "5s", "--", "sh", "-c", "trap '' TERM; echo leads; cat"];
    Background::fed(place.leasehold(&[&arguments[..], &deaf].concat()))
}

fn the_ready_file_says_who_stands_by_and_who_leads_and_is_gone_after_a_loss_and_at_the_end(
    place: &Place,
) {
    // A process that was killed has left the file.
    std::fs::write(place.path("one"), "leads\n").unwrap();
    let mut first = stand(place, "one");
    assert_eq!(first.line(), "leads");
    assert_eq!(place.read("one"), "leads\n");
    let mut second = stand(place, "two");
    until("it stands by", || place.read("two") == "stands by\n");
    place.revoke("e", &[]);
    until("it is gone", || !place.path("one").exists());
    assert!(first.child().try_wait().unwrap().is_none(), "its command goes on");
    first.close_stdin();
    first.end().assert_ended(76);
    assert_eq!(second.line(), "leads");
    until("it says so", || place.read("two") == "leads\n");
    second.close_stdin();
    second.end().assert_silent(0);
    assert!(!place.path("two").exists());
    let nowhere = ["elect", "e", "--value", "x", "--ready-file", "no/where", "--", "true"];
    place.end(&nowhere).assert_failed(2, "--ready-file no/where: No such file");
}

fn the_ready_file_is_gone_if_leasehold_is_killed_or_stopped_while_its_command_runs(place: &Place) {
    for signal in [Signal::KILL, Signal::STOP] {
        let mut leader = stand(place, "one");
        assert_eq!(leader.line(), "leads");
        assert_eq!(place.read("one"), "leads\n");
        leader.signal(signal);
        until("it is gone", || !place.path("one").exists());
        leader.signal(Signal::CONT);
        leader.end();
    }
}

#[test]
fn the_ready_file_follows_no_link_of_another_user() {
    let place = Place::on_file();
    std::fs::write(place.path("precious"), "mine\n").unwrap();
    let links = "for n in $(seq $$ $(($$ + 200))); do ln -s precious ready.$n; done
        ln -s precious ready; exec $LEASEHOLD elect e -q --value x --ready-file ready -- cat ready";
    let ended = script(&place, links);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "leads\n"));
    assert_eq!(place.read("precious"), "mine\n");
}

#[test]
fn what_makes_no_sense_is_refused_with_one_line() {
    let place = Place::on_file();
    let refusals: [(&[&str], &str); 4] = [
        (&["elect", "e"], "--value"),
        (&["elect", "e", "--show", "--", "true"], "cannot be used"),
        (&["elect", "e", "--show", "--listen"], "cannot be used"),
        (&["elect", "e", "--value", "two\nlines", "--", "true"], "control character"),
    ];
    for (arguments, words) in refusals {
        let refused = place.end(arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(words), "{words:?} is missing: {refused:?}");
    }
}
