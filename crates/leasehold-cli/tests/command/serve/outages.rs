//! An outage of the store.

use leasehold_testkit::Data;

use super::served::Served;
use crate::harness::{Place, until};

#[test]
fn a_store_that_goes_away_and_comes_back_is_told_and_what_was_known_stays() {
    let mut place = Place::on_redis();
    let held = place.holder("x", &["--ttl", "1h"]);
    let mut served = Served::start(&place, &[]);
    served.knows(1);
    assert_eq!(served.get("/readyz").status, 200);
    place.server.as_mut().unwrap().kill9().unwrap();
    let store = || served.json("/api/v1/state")["store"].take();
    until("the outage is told", || store()["is_there"] == false);
    assert!(store()["why"].is_string(), "{}", store());
    assert_eq!(served.get("/readyz").status, 503);
    assert_eq!(served.get("/healthz").status, 200);
    assert_eq!(served.json("/api/v1/locks")["locks"][0]["name"], "x", "it is told with its age");
    place.server.as_mut().unwrap().restart(Data::Kept).unwrap();
    until("it is ready", || served.get("/readyz").status == 200);
    assert_eq!(store()["is_there"], true);
    let _new = place.holder("y", &[]);
    let names = || served.get("/api/v1/locks").body;
    until("the new lock is known", || names().contains("\"y\""));
    let said = [served.process.error_line(), served.process.error_line()];
    assert!(said[0].starts_with("leasehold: waits for the store: "), "{said:?}");
    assert_eq!(said[1], "leasehold: the store answers again");
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
