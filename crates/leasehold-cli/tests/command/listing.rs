//! `ls`: which locks it lists, in which order, since when, and live.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Background, Place, until};
use crate::terminal::Terminal;

on_each_store!(
    a_list_is_sorted_by_what_was_asked_for_and_has_only_what_is_held_for_long_enough,
    a_change_of_the_list_is_a_line_as_text_and_as_json,
);

on_postgres!(a_change_of_the_list_is_a_line_as_text_and_as_json);

/// The first column.
fn names(table: &str) -> Vec<&str> {
    table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"))
}

fn a_list_is_sorted_by_what_was_asked_for_and_has_only_what_is_held_for_long_enough(place: &Place) {
    let _old = place.holder("b", &["--ttl", "1h", "--permits", "3/5"]);
    let held = || place.show("b")["holders"][0]["held_seconds"].as_f64();
    until("it is held for a second", || held() > Some(1.0));
    let _awaited = place.holder("c", &["--ttl", "10s"]);
    let _young = place.holder("a", &["--ttl", "1m"]);
    let _waiter = Background::start(place.shell("c", &["-q"], "true"));
    until("somebody waits", || place.show("c")["waiting"] == 1);
    let sorted = |word: &str| place.end(&["ls", "--sort", word]).stdout;
    assert_eq!(names(&place.end(&["ls"]).stdout), ["a", "b", "c"]);
    assert_eq!(names(&sorted("name")), ["a", "b", "c"]);
    assert_eq!(names(&sorted("held")), ["b", "c", "a"]);
    assert_eq!(names(&sorted("waiting"))[0], "c");
    assert_eq!(names(&sorted("longest"))[0], "c");
    assert_eq!(names(&sorted("left")), ["c", "a", "b"]);
    let old = place.end(&["ls", "--held-longer-than", "1s", "--sort", "held"]);
    assert_eq!(names(&old.stdout)[0], "b");
    assert!(old.stdout.contains(" 3/5 "), "{old:?}");
    let none = place.end(&["ls", "--held-longer-than", "10m"]);
    none.assert_failed(0, "no lock is held for longer than 10m");
    assert_eq!(none.stdout, "");
    // Since when: as people read the time, and as programs do.
    let mut here = place.leasehold(&["ls", "b"]);
    here.env("TZ", "UTC0");
    let here = crate::harness::ended(here).stdout;
    let since = place.show("b")["holders"][0]["held_since"].as_str().unwrap().to_owned();
    let clock = since.split_once('T').unwrap().1.trim_end_matches('Z');
    // The same second, except for rounding.
    let (shown, _) = clock.rsplit_once(':').unwrap();
    assert!(here.contains(shown) || here.contains(":00 "), "{since}: {here}");
    let mut abroad = place.leasehold(&["show", "b"]);
    abroad.env("TZ", "XYZ-5:30");
    assert!(!crate::harness::ended(abroad).stdout.contains(clock), "{since}");
}

#[test]
fn what_is_wrong_with_a_list_is_said_in_one_line() {
    let place = Place::on_file();
    for (options, words) in [
        (&["--sort", "size"][..], "size"),
        (&["--sort", "entries"], "add --watch"),
        (&["--held-longer-than", "soon"], "is not a duration"),
        (&["--held-longer-than", "1m", "--all"], "cannot be used with"),
        (&["--watch", "--all"], "cannot be used with"),
        (&["--interval", "1s"], "--watch"),
        (&["--watch", "--interval", "1ms"], "100ms"),
        (&["--watch", "--interval", "0"], "100ms"),
        (&["--budget", "100"], "--watch"),
        (&["--watch", "--budget", "1"], "10 or more"),
    ] {
        place.end(&[&["ls"], options].concat()).assert_failed(2, words);
    }
}

fn a_change_of_the_list_is_a_line_as_text_and_as_json(place: &Place) {
    let first = place.holder("job/1", &["--label", "nightly", "--ttl", "1h"]);
    let _other = place.holder("other", &[]);
    let watch = ["ls", "job/", "--watch", "--interval", "100ms"];
    let mut text = Background::start(place.leasehold(&watch));
    let mut programs = Background::start(place.leasehold(&[&watch[..], &["--json"]].concat()));
    let line = text.line();
    let token = place.token("job/1").unwrap();
    for words in ["Z  appeared  job/1  w  ", &format!("  token {token}  nightly")] {
        assert!(line.contains(words), "{words:?}: {line}");
    }
    let line = json(&programs.line());
    assert_eq!((&line["change"], &line["name"]), (&"appeared".into(), &"job/1".into()));
    assert_eq!(line["lock"]["holders"][0]["token"], *token);
    assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
    let _waiter = Background::start(place.shell("job/1", &["-q"], "true"));
    assert!(text.line().contains("changed   job/1"));
    assert_eq!(json(&programs.line())["lock"]["waiting"], 1);
    first.signal(Signal::TERM);
    let gone = |line: &str| line.contains("gone      job/1");
    let mut lines = std::iter::repeat_with(|| text.line());
    assert!(lines.by_ref().take(4).any(|line| gone(&line)), "it is gone in the end");
    let mut lines = std::iter::repeat_with(|| json(&programs.line()));
    let last = lines.by_ref().take(4).find(|line| line["change"] == "gone").unwrap();
    assert!(last["lock"].is_null(), "{last}");
    for watching in [text, programs] {
        watching.signal(Signal::INT);
        let end = watching.end();
        assert_eq!((end.signal, end.stderr.as_str()), (Some(2), ""), "{end:?}");
    }
}

#[test]
fn a_list_that_is_watched_says_when_the_store_goes_away_and_when_it_is_back() {
    use leasehold_testkit::Data;
    let mut place = Place::on_redis();
    let mut watching = Background::start(place.leasehold(&["ls", "--watch", "--json"]));
    let _held = place.holder("x", &["--ttl", "1h"]);
    assert_eq!(json(&watching.line())["name"], "x");
    place.server.as_mut().unwrap().kill9().unwrap();
    let away = json(&watching.line());
    assert_eq!(away["change"], "away");
    assert!(away["why"].is_string(), "{away}");
    place.server.as_mut().unwrap().restart(Data::Kept).unwrap();
    assert_eq!(json(&watching.line())["change"], "back");
}

#[test]
fn a_reader_that_stops_ends_the_list_without_a_word() {
    let place = Place::on_file();
    let mut watching =
        Background::start(place.leasehold(&["ls", "--watch", "--interval", "100ms"]));
    drop(watching.child().stdout.take());
    let _held = place.holder("x", &[]);
    let end = watching.end();
    assert_eq!((end.signal, end.stderr.as_str()), (Some(13), ""), "{end:?}");
}

#[test]
fn on_a_terminal_the_list_is_that_of_top_with_what_is_held_for_long_enough() {
    let place = Place::on_file();
    let _old = place.holder("invoices/old", &["--ttl", "1h"]);
    let held = || place.show("invoices/old")["holders"][0]["held_seconds"].as_f64();
    until("it is held for 5 seconds", || held() > Some(5.0));
    let _young = place.holder("invoices/young", &["--ttl", "1h"]);
    let command = "stty cols 80 rows 10; export TERM=xterm; \
                   exec leasehold ls --watch --interval 100ms --held-longer-than 4s";
    let mut terminal = Terminal::start(&place, command);
    let mut seen = terminal.until("invoices/old");
    // Everything is drawn again after the help, once both keys were typed.
    terminal.type_in("?");
    seen += &terminal.until("another lock");
    terminal.type_in("?");
    seen += &terminal.until("invoices/old");
    terminal.type_in("q");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest:?}");
    assert!(!(seen + &rest).contains("young"), "{rest:?}");
}
