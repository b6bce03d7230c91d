//! Server-sent events, and an outage of the store while somebody listens.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use leasehold_testkit::Data;
use serde_json::Value;

use super::http::{connect, text};
use super::served::Served;
use crate::harness::{Place, until};

/// The most listeners at the same time, as in the command.
const MOST: usize = 128;

/// A listener.
struct Listener(BufReader<TcpStream>);

impl Listener {
    fn begin(served: &Served) -> Self {
        let mut stream = connect(served.address);
        let request = text(served.address, "GET /api/v1/events", &[], "");
        stream.write_all(request.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The data of the next event of this kind that satisfies the condition.
    fn next(&mut self, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if self.line() != format!("event: {kind}") {
                continue;
            }
            let line = self.line();
            let data: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
            if is_it(&data) {
                return data;
            }
        }
    }
}

#[test]
fn a_hundred_who_listen_are_all_told_and_one_too_many_is_told_so() {
    let place = Place::on_redis();
    let served = Served::start(&place, &[]);
    served.knows(0);
    let mut listeners: Vec<_> = (0..100).map(|_| Listener::begin(&served)).collect();
    for listener in &mut listeners {
        listener.next("state", |state| state["held"] == 0);
    }
    let mut held = place.holder("x", &["--label", "told"]);
    for listener in &mut listeners {
        let change = listener.next("lock", |change| change["name"] == "x");
        assert_eq!(change["events"][0]["kind"], "granted");
        assert_eq!(change["lock"]["holders"][0]["label"], "told");
    }
    held.close_stdin();
    for listener in &mut listeners {
        let change = listener.next("lock", |change| change["lock"].is_null());
        assert_eq!(change["events"][0]["kind"], "released");
    }
    listeners.extend((100..MOST).map(|_| Listener::begin(&served)));
    for listener in &mut listeners[100..] {
        listener.next("state", |_| true);
    }
    let refused = served.get("/api/v1/events");
    assert_eq!(refused.status, 503, "{refused:?}");
    listeners.truncate(50);
    until("there is room again", || {
        let mut listener = Listener::begin(&served);
        listener.line().contains("200")
    });
}

#[test]
fn a_store_that_goes_away_and_comes_back_is_told_and_what_was_known_stays() {
    let mut place = Place::on_redis();
    let held = place.holder("x", &["--ttl", "1h"]);
    let served = Served::start(&place, &[]);
    served.knows(1);
    assert_eq!(served.get("/readyz").status, 200);
    let mut listener = Listener::begin(&served);
    place.server.as_mut().unwrap().kill9().unwrap();
    let state = listener.next("state", |state| state["store"]["is_there"] == false);
    assert!(state["store"]["why"].is_string(), "{state}");
    assert_eq!(served.get("/readyz").status, 503);
    assert_eq!(served.get("/healthz").status, 200);
    assert_eq!(served.json("/api/v1/locks")["locks"][0]["name"], "x", "it is told with its age");
    place.server.as_mut().unwrap().restart(Data::Kept).unwrap();
    listener.next("state", |state| state["store"]["is_there"] == true);
    until("it is ready", || served.get("/readyz").status == 200);
    let _new = place.holder("y", &[]);
    listener.next("lock", |change| change["name"] == "y");
    drop(held);
}

#[test]
fn a_store_that_is_away_when_it_begins_is_waited_for() {
    let mut place = Place::on_redis();
    place.server.as_mut().unwrap().kill9().unwrap();
    let served = Served::start(&place, &[]);
    assert_eq!((served.get("/healthz").status, served.get("/readyz").status), (200, 503));
    place.server.as_mut().unwrap().restart(Data::Kept).unwrap();
    let _held = place.holder("x", &[]);
    served.knows(1);
}
