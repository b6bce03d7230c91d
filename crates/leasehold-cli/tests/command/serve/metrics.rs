//! Metrics are OpenMetrics, with names of locks only if an option asks for them.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use super::served::{Served, loses_it};
use crate::harness::{Place, until};

/// Parses the text strictly by the specification: each family is described before its samples, a
/// counter has its suffix, and the end is marked.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let mut kind = None;
    let (mut family, mut families, mut samples) = (String::new(), Vec::new(), BTreeMap::new());
    for line in body.lines() {
        if let Some(described) = line.strip_prefix("# ") {
            let words: Vec<&str> = described.splitn(3, ' ').collect();
            let [keyword, name, rest] = words[..] else { panic!("{line}") };
            if name != family {
                assert!(!families.contains(&name.to_owned()), "twice: {line}");
                families.push(name.to_owned());
                (family, kind) = (name.to_owned(), None);
            }
            match keyword {
                "TYPE" => {
                    assert!(["gauge", "counter"].contains(&rest), "{line}");
                    assert_eq!(kind.replace(rest == "counter"), None, "{line}");
                }
                "UNIT" => assert!(name == family && name.ends_with(&format!("_{rest}")), "{line}"),
                "HELP" => assert!(name == family && !rest.is_empty(), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let name = if kind.unwrap() { name.strip_suffix("_total").unwrap() } else { name };
        assert_eq!(name, family, "a sample stands with its family: {line}");
        assert!(is_sound(labels.strip_suffix('}').unwrap()), "{line}");
        let before = samples.insert(series.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "twice: {line}");
    }
    samples
}

/// Whether this is one label with its value in quotes, or no label.
fn is_sound(labels: &str) -> bool {
    let Some((name, value)) = labels.split_once("=\"") else { return labels.is_empty() };
    let Some(value) = value.strip_suffix('"') else { return false };
    let plain = value.replace("\\\\", "").replace("\\\"", "").replace("\\n", "");
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && !plain.contains(['"', '\\', '\n'])
}

fn read(served: &Served) -> BTreeMap<String, f64> {
    let answer = served.get("/metrics");
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    parse(&answer.body)
}

#[test]
fn metrics_count_what_there_is_and_name_no_lock() {
    assert_counts(&Place::on_redis());
    if let Some((place, _server)) = crate::postgres::shared() {
        assert_counts(&place);
    }
}

fn assert_counts(place: &Place) {
    let _held = place.holder("secret", &[]);
    let served = Served::start(place, &[]);
    served.knows(1);
    until("the doctor is done", || served.get("/metrics").body.contains("doctor_findings{"));
    let metrics = read(&served);
    for (name, value) in [("reachable", 1.0), ("held", 1.0), ("waiting", 0.0), ("awaited", 0.0)] {
        assert_eq!(metrics[&format!("leasehold_serve_{name}")], value, "{name}");
    }
    assert!(metrics["leasehold_serve_longest_hold_seconds"] > 0.0);
    assert!(metrics["leasehold_serve_walks_total"] >= 1.0);
    assert_eq!(metrics["leasehold_serve_holds_older{seconds=\"86400\"}"], 0.0);
    assert!(metrics.contains_key("leasehold_serve_doctor_findings{level=\"danger\"}"));
    assert!(!metrics.keys().any(|name| name.contains("secret")), "{metrics:?}");
}

#[test]
fn nothing_is_counted_before_everything_was_looked_at_once() {
    let place = Place::on_redis();
    let _held = place.holder("x", &[]);
    place.server.as_ref().unwrap().stop().unwrap();
    let served = Served::start(&place, &[]);
    let metrics = read(&served);
    assert_eq!(metrics["leasehold_serve_walks_total"], 0.0);
    assert!(!metrics.contains_key("leasehold_serve_held"), "{metrics:?}");
    assert_eq!(served.json("/api/v1/state")["is_whole"], false);
    place.server.as_ref().unwrap().cont().unwrap();
    served.knows(1);
    assert_eq!(read(&served)["leasehold_serve_held"], 1.0);
}

#[test]
fn names_are_told_that_begin_as_was_asked_for_however_they_are_written() {
    let place = Place::on_redis();
    let _held: Vec<_> = ["job/\"a\\b\"", "other"].map(|name| place.holder(name, &[])).into();
    let served = Served::start(&place, &["--metrics-names", "job/"]);
    served.knows(2);
    let metrics = read(&served);
    assert_eq!(metrics["leasehold_serve_lock_holders{name=\"job/\\\"a\\\\b\\\"\"}"], 1.0);
    assert!(!metrics.keys().any(|name| name.contains("other")), "{metrics:?}");
    assert_eq!(metrics["leasehold_serve_names_left_out"], 0.0);
}

/// The time now, in seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn when_a_job_was_last_given_back_is_told_also_if_that_was_before_anybody_watched() {
    let place = Place::on_redis();
    let began = now();
    for name in ["job/done", "other"] {
        place.end(&["run", name, "-n", "--once-per", "1h", "--", "true"]).assert_silent(0);
    }
    // A job that did not end by itself, and a job that still runs.
    let mut revoked = place.holder("job/revoked", &[]);
    place.revoke("job/revoked", &[]);
    loses_it(&mut revoked);
    let _held = place.holder("job/held", &[]);
    let names = ["--metrics-names", "job/done", "job/revoked", "job/held"];
    let served = Served::start(&place, &names);
    served.knows(1);
    let metrics = read(&served);
    let released = "leasehold_serve_lock_last_released_timestamp_seconds";
    let of = |name: &str| metrics.get(&format!("{released}{{name=\"job/{name}\"}}"));
    let at = *of("done").unwrap();
    assert!((began - 1.0..now() + 1.0).contains(&at), "{began} {at}");
    assert_eq!((of("revoked"), of("held")), (None, None), "{metrics:?}");
    assert!(!metrics.keys().any(|name| name.contains("other")), "{metrics:?}");
}
