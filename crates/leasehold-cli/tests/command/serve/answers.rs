//! Answers are as the documents say, and as the command prints them.

use serde_json::{Value, json};

use super::served::Served;
use crate::harness::{Place, until};

fn the_last_run_is_as_show_prints_it(place: &Place) {
    let once = ["run", "x", "--label", "<b>first</b>", "--once-per", "1h", "--", "true"];
    place.end(&once).assert_silent(0);
    let served = Served::start(place, &[]);
    served.knows(0);
    let lock = served.json("/api/v1/locks/x");
    let (told, shown) = (&lock["last"], &place.show("x")["last"]);
    assert_eq!(shown["label"], "<b>first</b>", "{shown:#}");
    for field in ["holder", "host", "pid", "label", "token"] {
        assert_eq!(told[field], shown[field], "{field}");
    }
}

on_each_store!(
    a_page_of_locks_goes_on_where_it_was_cut_and_a_lock_is_what_show_prints,
    the_last_run_is_as_show_prints_it,
);

fn a_page_of_locks_goes_on_where_it_was_cut_and_a_lock_is_what_show_prints(place: &Place) {
    let _held = place.holder("a/b <i>&\"é", &["--label", "<script>alert(1)</script>"]);
    let _shared = place.holder("shared", &["--shared"]);
    let _permit = place.holder("gpu", &["--permits", "1/4"]);
    // The holder has ended, and the name stays taken.
    place.end(&["run", "cooling", "--min-hold", "1h", "--", "true"]).assert_silent(0);
    let _waiter = place.waiter("a/b <i>&\"é", &["--label", "next"], "true");
    let served = Served::start(place, &[]);
    served.knows(4);
    until("it sees who waits", || served.json("/api/v1/state")["waiting"] == 1);
    assert_eq!(
        served.json("/api/v1/doctor")["store"],
        served.json("/api/v1/state")["store"]["url"]
    );
    // The next page goes on where a cut page ended.
    let first = served.json("/api/v1/locks?limit=3");
    assert_eq!(first["locks"].as_array().unwrap().len(), 3);
    let cursor = first["next"].as_str().unwrap();
    let second = served.json(&format!("/api/v1/locks?limit=3&cursor={cursor}"));
    assert_eq!((&second["locks"][0]["name"], &second["next"]), (&json!("shared"), &Value::Null));
    let some = served.json("/api/v1/locks?prefix=gp");
    assert_eq!(some["locks"][0]["holders"][0]["mode"], "1/4");
    // The answer for one lock is what `show --json` prints, except for the time that has passed.
    let name = "/api/v1/locks/a%2Fb%20%3Ci%3E%26%22%C3%A9";
    let lock = served.json(name);
    let shown = place.show("a/b <i>&\"é");
    for field in ["name", "foreign", "waiting", "last"] {
        assert_eq!(lock[field], shown[field], "{field}");
    }
    for field in ["holder", "token", "host", "pid", "label", "mode", "state", "held_since"] {
        assert_eq!(lock["holders"][0][field], shown["holders"][0][field], "{field}");
    }
    assert_eq!(lock["waiters"][0]["waiter"], shown["waiters"][0]["waiter"]);
    // The page gets the visible rows, with their timelines.
    let screen = served.json("/api/v1/screen?text=A/B&count=9");
    assert_eq!((&screen["total"], &screen["matching"]), (&json!(4), &json!(1)));
    assert_eq!(screen["rows"][0]["bars"][0]["token"], shown["holders"][0]["token"]);
    let screen = served.json("/api/v1/screen?order=name&from=3&count=9");
    assert_eq!((&screen["matching"], &screen["rows"][0]["name"]), (&json!(4), &json!("shared")));
    // Errors are JSON, too.
    for (path, status, words) in [
        ("/api/v1/locks?limit=0", 400, "limit"),
        ("/api/v1/locks?limit=1001", 400, "1000"),
        ("/api/v1/locks?cursor=", 400, "cursor"),
        ("/api/v1/nothing", 404, "nothing here"),
    ] {
        let answer = served.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(words), "{path}: {answer:?}");
    }
}

#[test]
fn a_lock_of_another_program_has_its_value_and_a_mark() {
    let place = Place::on_redis_with("layout=plain&prefix=app:");
    let server = place.server.as_ref().unwrap();
    server.command::<()>("SET app:theirs 0d7b6d2e").unwrap();
    let served = Served::start(&place, &[]);
    served.knows(1);
    let lock = served.json("/api/v1/locks/theirs");
    assert_eq!(
        (&lock["foreign"]["value"], &lock["foreign"]["mode"]),
        (&json!("0d7b6d2e"), &json!("exclusive"))
    );
    assert_eq!(lock["marks"], json!(["no_end"]));
}
