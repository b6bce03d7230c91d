//! Scripts that wait for each other, as `leasehold doctor` sees them.

use serde_json::Value;

use crate::harness::{Background, Place, ended, until};

on_each_store!(
    scripts_that_hold_one_lock_and_wait_for_another_are_found_and_a_revoke_ends_it,
    a_script_that_waits_for_one_at_work_is_left_alone,
);

on_postgres!(scripts_that_hold_one_lock_and_wait_for_another_are_found_and_a_revoke_ends_it);

/// The doctor's findings about deadlocks: each level and its words, with the remedy.
fn deadlocks(place: &Place) -> Vec<(String, String, String)> {
    let said = place.end(&["doctor", "--json"]).stdout;
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    let findings = said["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or("").to_owned();
    let of_this = findings.filter(|finding| finding["topic"] == "deadlocks");
    let all = of_this.map(|f| (text(f, "level"), text(f, "found"), text(f, "remedy")));
    all.collect()
}

/// `leasehold run OUTER -- leasehold run INNER -- echo`, which holds OUTER and waits for INNER.
pub(crate) fn nested(place: &Place, outer: &str, inner: &str) -> Background {
    let script = format!("echo held; exec leasehold-under-test run -q {inner} -- echo done");
    let script = script.replace("leasehold-under-test", crate::harness::PROGRAM);
    let mut outer = Background::start(place.shell(outer, &["-q", "--label", outer], &script));
    assert_eq!(outer.line(), "held");
    outer
}

pub(crate) fn waiting(place: &Place, name: &str) {
    until("it waits", || place.show(name)["waiting"] == 1);
}

/// Scripts that each hold one of these names and wait for the next; the last waits for the first.
pub(crate) fn circle(place: &Place, names: &[&str]) -> Vec<Background> {
    // Each must hold its name before any of them waits: until then, another holder has the first.
    let mut gate = place.holder("gate", &[]);
    let next = names.iter().cycle().skip(1);
    let start = |(name, next): (&&str, &&str)| {
        let script = format!(
            "echo held; {program} run -q gate -- true; exec {program} run -q '{next}' -- echo done",
            program = crate::harness::PROGRAM
        );
        let mut outer = Background::start(place.shell(name, &["-q", "--label", name], &script));
        assert_eq!(outer.line(), "held");
        outer
    };
    let scripts = names.iter().zip(next).map(start).collect();
    gate.close_stdin();
    names.iter().for_each(|name| waiting(place, name));
    scripts
}

fn scripts_that_hold_one_lock_and_wait_for_another_are_found_and_a_revoke_ends_it(place: &Place) {
    let names = ["a", "b", "c"];
    let scripts = circle(place, &names);
    assert_eq!(deadlocks(place)[0].0, "ok", "nobody has waited for long");
    until("it is found", || deadlocks(place)[0].0 == "warning");
    let [(_, found, remedy)] = &deadlocks(place)[..] else { panic!("{:?}", deadlocks(place)) };
    assert!(found.starts_with("probably a deadlock: "), "{found}");
    for name in names {
        assert!(found.contains(&format!("has waited for {name} for ")), "{found}");
        assert!(found.contains(&format!("({name}) has held for ")), "{found}");
        let token = place.token(name).unwrap();
        assert!(remedy.contains(&format!("`leasehold revoke {name} --token {token}`")), "{remedy}");
    }
    assert!(remedy.contains("--wait"), "{remedy}");
    assert_eq!(place.end(&["doctor", "-q", "--strict"]).code, Some(1));

    let token = place.token("a").unwrap();
    ended(place.leasehold(&["revoke", "a", "--token", &token])).assert_silent(0);
    let outcomes: Vec<_> = scripts.into_iter().map(Background::end).collect();
    assert_eq!(
        outcomes.iter().map(|one| one.code).collect::<Vec<_>>(),
        [Some(76), Some(0), Some(0)]
    );
}

fn a_script_that_waits_for_one_at_work_is_left_alone(place: &Place) {
    let mut worker = place.holder("b", &[]);
    let script = nested(place, "a", "b");
    let behind = Background::start(place.shell("a", &["-q"], "true"));
    waiting(place, "a");
    let waits = || place.show("a")["waiters"][0]["waited_seconds"].as_f64() > Some(11.0);
    until("it has waited for long", waits);
    assert_eq!(deadlocks(place)[0].0, "ok");
    worker.close_stdin();
    assert_eq!(script.end().code, Some(0));
    assert_eq!(behind.end().code, Some(0));
}
