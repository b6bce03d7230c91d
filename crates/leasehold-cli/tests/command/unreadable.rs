//! Records that cannot be read, among others: records of another release, or damaged ones.

use rusqlite::Connection;
use serde_json::Value;

use crate::harness::{Background, Place, json, until};
use crate::serve::served::{Served, loses_it};
use crate::terminal::Terminal;

/// What every command says that meets a record of another release.
const SENTENCE: &str = "has version 6";

/// One lock that is held, and two locks whose records cannot be read.
fn place() -> (Place, Background) {
    let place = Place::on_file();
    let holder = place.holder("good", &["--label", "fine"]);
    write(&place, "v6", "6\nanything");
    write(&place, "dam", "1\nanything");
    (place, holder)
}

fn write(place: &Place, name: &str, record: &str) {
    let sql = "INSERT OR REPLACE INTO lock SELECT ?1, boot, ?2 FROM lock LIMIT 1";
    Connection::open(place.path("locks.db")).unwrap().execute(sql, [name, record]).unwrap();
}

fn named<'a>(locks: &'a Value, name: &str) -> &'a Value {
    let found = locks.as_array().unwrap().iter().find(|lock| lock["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is missing: {locks:#}"))
}

#[test]
fn ls_lists_the_others_and_names_those_that_cannot_be_read() {
    let (place, _holder) = place();
    let listed = place.end(&["ls"]);
    listed.assert_failed(0, "2 names cannot be read");
    let row = |name: &str| listed.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("good").ends_with("fine"), "{listed:?}");
    assert!(row("v6").contains("cannot be read") && row("v6").contains("version 6"), "{listed:?}");
    assert!(row("dam").contains("damaged"), "{listed:?}");
    let locks = json(&place.end(&["ls", "--json"]).stdout);
    assert_eq!(named(&locks, "good")["holders"][0]["label"], "fine");
    assert!(named(&locks, "good").get("unreadable").is_none(), "{locks:#}");
    assert_eq!(named(&locks, "v6")["unreadable"]["kind"], "version");
    let why = named(&locks, "v6")["unreadable"]["why"].as_str().unwrap();
    assert!(why.contains(SENTENCE), "{why}");
    assert_eq!(named(&locks, "dam")["unreadable"]["kind"], "corrupt");
}

#[test]
fn show_and_run_say_the_same_sentence() {
    let (place, _holder) = place();
    place.end(&["run", "v6", "-n", "--", "true"]).assert_failed(69, SENTENCE);
    place.end(&["show", "v6"]).assert_failed(69, SENTENCE);
    let token = place.token("good").unwrap();
    place.end(&["revoke", "v6", &token]).assert_failed(69, SENTENCE);
}

#[test]
fn a_holder_whose_record_is_overwritten_by_another_release_is_told_the_same_sentence() {
    let place = Place::on_file();
    let mut holder = place.holder("v6", &["--ttl", "6s"]);
    write(&place, "v6", "6\nanything");
    loses_it(&mut holder);
    let ended = holder.end();
    assert!(ended.stderr.contains(SENTENCE), "{ended:?}");
}

#[test]
fn the_doctor_counts_and_names_them_and_looks_for_deadlocks_among_the_others() {
    let (place, _holder) = place();
    let report = json(&place.end(&["doctor", "--json"]).stdout);
    let of = |topic: &str| -> Vec<&str> {
        let findings = report["findings"].as_array().unwrap().iter();
        let of = findings.filter(|finding| finding["topic"] == topic);
        of.map(|finding| finding["found"].as_str().unwrap()).collect()
    };
    assert_eq!(of("deadlocks"), ["no deadlock among the waiters"]);
    let [records] = of("records")[..] else { panic!("{report}") };
    assert!(records.starts_with("2 names cannot be read: "), "{records}");
    assert!(records.contains("v6") && records.contains("dam"), "{records}");
}

#[test]
fn what_is_served_shows_the_others_and_says_of_these_why_they_cannot_be_read() {
    let (place, _holder) = place();
    let served = Served::start(&place, &["--metrics-names", ""]);
    served.knows(1);
    assert_eq!(served.json("/api/v1/state")["unreadable"], 2);
    let locks = &served.json("/api/v1/locks")["locks"];
    assert_eq!(named(locks, "good")["marks"], json("[]"));
    assert_eq!(named(locks, "v6")["marks"], json("[\"unreadable\"]"));
    for (name, kind) in [("v6", "version"), ("dam", "corrupt")] {
        let answer = served.get(&format!("/api/v1/locks/{name}"));
        assert_eq!(answer.status, 502, "{answer:?}");
        assert_eq!(answer.json()["kind"], kind);
    }
    let error = served.get("/api/v1/locks/v6").json()["error"].to_string();
    assert!(error.contains(SENTENCE), "{error}");
    let metrics = served.get("/metrics").body;
    for line in ["leasehold_serve_held 1\n", "leasehold_serve_unreadable 2\n"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(!metrics.contains("name=\"v6\""), "nobody knows who holds it: {metrics}");
    // Once it can be read again, the lock is like the others.
    let sql = "DELETE FROM lock WHERE name = 'v6'";
    Connection::open(place.path("locks.db")).unwrap().execute(sql, []).unwrap();
    until("it is gone", || served.json("/api/v1/state")["unreadable"] == 1);
}

#[test]
fn top_lists_the_others_and_marks_those_that_cannot_be_read() {
    let (place, _holder) = place();
    let mut terminal = Terminal::start(&place, "stty cols 80 rows 24; leasehold top");
    let mut seen = terminal.until("cannot");
    for name in ["good", "v6", "dam"] {
        if !seen.contains(name) {
            seen += &terminal.until(name);
        }
    }
    terminal.type_in("q");
    assert_eq!(terminal.end().0, Some(0));
}
