//! Waiters that wait for each other, as programs and metrics show them.

use serde_json::Value;

use super::served::Served;
use crate::deadlocks::{circle, nested, waiting};
use crate::harness::{Background, Place, until};

on_each_store!(clients_that_wait_for_each_other_are_marked_until_one_is_ended_and_no_others_are);

/// The names that are marked as deadlocks.
fn marked(served: &Served) -> Vec<String> {
    let locks = served.json("/api/v1/locks")["locks"].take();
    let has = |lock: &&Value| lock["marks"].as_array().unwrap().iter().any(|it| it == "deadlock");
    let names = locks.as_array().unwrap().iter().filter(has);
    names.map(|lock| lock["name"].as_str().unwrap().to_owned()).collect()
}

fn clients_that_wait_for_each_other_are_marked_until_one_is_ended_and_no_others_are(place: &Place) {
    let clients = circle(place, &["a", "b"]);
    // Clients that wait for a worker, or behind such a waiter, look similar, but are in no
    // deadlock.
    let _worker = place.holder("work", &[]);
    let _holder = nested(place, "behind", "work");
    let _waiter = Background::start(place.shell("behind", &["-q"], "true"));
    waiting(place, "behind");
    let served = Served::start(place, &[]);
    served.knows(4);
    until("they are found", || !marked(&served).is_empty());
    let long = || place.show("behind")["waiters"][0]["waited_seconds"].as_f64() > Some(12.0);
    until("the others have waited for long, too", long);
    assert_eq!(marked(&served), ["a", "b"]);
    let state = served.json("/api/v1/state");
    assert_eq!(state["deadlocks"], 1);
    let waits = state["first_deadlocks"][0]["waits"].as_array().unwrap();
    for (wait, other) in waits.iter().zip(waits.iter().rev()) {
        assert_eq!(wait["behind"]["label"], wait["name"], "its holder is called as it is");
        assert_eq!(wait["token"].as_str(), place.token(wait["name"].as_str().unwrap()).as_deref());
        assert_ne!(wait["name"], other["name"]);
    }
    assert!(served.get("/metrics").body.contains("\nleasehold_serve_deadlocks 1\n"));
    place.end(&["revoke", "a", &place.token("a").unwrap()]).assert_silent(0);
    until("no row is marked", || marked(&served).is_empty());
    assert!(served.get("/metrics").body.contains("\nleasehold_serve_deadlocks 0\n"));
    clients.into_iter().for_each(|client| drop(client.join().unwrap()));
}
