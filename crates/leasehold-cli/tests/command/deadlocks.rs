//! Clients that wait for each other, as `leasehold doctor` sees them.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use leasehold::blocking::wait;
use serde_json::Value;

use crate::harness::{Background, Place, json, until};

on_each_store!(
    clients_that_hold_one_lock_and_wait_for_another_are_found_and_a_revoke_ends_it,
    a_script_that_waits_for_one_at_work_is_left_alone,
);

on_postgres!(clients_that_hold_one_lock_and_wait_for_another_are_found_and_a_revoke_ends_it);

/// The doctor's findings about deadlocks: each level and its words, with the remedy.
fn deadlocks(place: &Place) -> Vec<(String, String, String)> {
    let said = json(&place.end(&["doctor", "--json"]).stdout);
    let findings = said["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or("").to_owned();
    let of_this = findings.filter(|finding| finding["topic"] == "deadlocks");
    let all = of_this.map(|f| (text(f, "level"), text(f, "found"), text(f, "remedy")));
    all.collect()
}

/// `leasehold run OUTER -- leasehold run INNER -- echo`, which holds OUTER and waits for INNER.
fn nested(place: &Place, outer: &str, inner: &str) -> Background {
    let script = format!("echo held; exec leasehold-under-test run -q {inner} -- echo done");
    let script = script.replace("leasehold-under-test", crate::harness::PROGRAM);
    let mut outer = Background::start(place.shell(outer, &["-q", "--label", outer], &script));
    assert_eq!(outer.line(), "held");
    outer
}

fn waiting(place: &Place, name: &str) {
    until("it waits", || place.show(name)["waiting"] == 1);
}

/// A client in a thread, and its outcome once it has held both of its names.
pub(crate) type Client = thread::JoinHandle<leasehold::Result<()>>;

/// Clients that each hold one of these names and wait for the next; the last waits for the first.
pub(crate) fn circle(place: &Place, names: &[&str]) -> Vec<Client> {
    let all_hold = Arc::new(Barrier::new(names.len()));
    let start = |(name, next): (&&str, &&str)| {
        let (name, next, url) = ((*name).to_owned(), (*next).to_owned(), place.url.clone());
        let all_hold = Arc::clone(&all_hold);
        thread::spawn(move || {
            let client = wait(leasehold::Client::connect(&url))?;
            let lock = client.mutex(&name).ttl(Duration::from_secs(3)).label(&name);
            let first = wait(lock.acquire())?;
            all_hold.wait();
            wait(wait(client.mutex(&next).acquire())?.release())?;
            wait(first.release())?;
            wait(client.close())
        })
    };
    let clients = names.iter().zip(names.iter().cycle().skip(1)).map(start).collect();
    names.iter().for_each(|name| waiting(place, name));
    clients
}

fn clients_that_hold_one_lock_and_wait_for_another_are_found_and_a_revoke_ends_it(place: &Place) {
    let names = ["a", "b", "c"];
    let clients = circle(place, &names);
    assert_eq!(deadlocks(place)[0].0, "ok", "nobody has waited for long");
    until("it is found", || deadlocks(place)[0].0 == "warning");
    let [(_, found, remedy)] = &deadlocks(place)[..] else { panic!("{:?}", deadlocks(place)) };
    assert!(found.starts_with("probably a deadlock: "), "{found}");
    for name in names {
        assert!(found.contains(&format!("has waited for {name} for ")), "{found}");
        assert!(found.contains(&format!("({name}) has held for ")), "{found}");
        let token = place.token(name).unwrap();
        assert!(remedy.contains(&format!("`leasehold revoke {name} {token}`")), "{remedy}");
    }
    assert!(remedy.contains("--wait"), "{remedy}");
    assert_eq!(place.end(&["doctor", "-q", "--strict"]).code, Some(1));

    place.revoke("a", &[]);
    let outcomes = clients.into_iter().map(|client| client.join().unwrap().is_ok());
    assert_eq!(outcomes.collect::<Vec<_>>(), [false, true, true]);
}

fn a_script_that_waits_for_one_at_work_is_left_alone(place: &Place) {
    let mut worker = place.holder("b", &[]);
    let script = nested(place, "a", "b");
    let behind = place.waiter("a", &["-q"], "true");
    let waits = || place.show("a")["waiters"][0]["waited_seconds"].as_f64() > Some(11.0);
    until("it has waited for long", waits);
    assert_eq!(deadlocks(place)[0].0, "ok");
    worker.close_stdin();
    assert_eq!(script.end().code, Some(0));
    assert_eq!(behind.end().code, Some(0));
}
