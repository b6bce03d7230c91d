//! The model of Redisson's verbs beside Redisson itself, in a JVM.

use std::time::Duration;

use leasehold_testkit::{Worker, redisson_peer};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::keys::keys;
use super::record::{Mode, Record};
use crate::place::{Keys, Place};

/// All leases are multiples of this, so that the model's and the server's leases can be compared on
/// the slowest machine: ten minutes, in ms.
const UNIT: u64 = 600_000;

/// How many verbs of each of its locks are compared.
const VERBS: usize = 300;

/// One verb of one thread; a lock is held for the given units.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Force,
    Lock(u64),
    Unlock,
}

/// A JVM whose watchdog counts in units. If it was not built, prints that and returns `None`.
fn jvm(port: u16) -> Option<Worker> {
    redisson_peer(&format!("one,{port}"), "a", Duration::from_millis(UNIT))
}

/// Does the verb in the model, which has no clock. Returns the answer that Redisson must give, if
/// it gives one.
fn model(record: &mut Record, kind: &str, owner: &str, verb: Verb) -> Option<bool> {
    match (verb, kind) {
        (Verb::Force, "read") => record.force_unlock(Some(Mode::Read)),
        (Verb::Force, "write") => record.force_unlock(Some(Mode::Write)),
        (Verb::Force, _) => record.force_unlock(None),
        (Verb::Lock(units), "read") => return Some(record.read_lock(owner, units * UNIT)),
        (Verb::Lock(units), "write") => return Some(record.write_lock(owner, 0, units * UNIT)),
        (Verb::Lock(units), _) => return Some(record.lock(owner, units * UNIT, kind == "fenced")),
        (Verb::Unlock, "read") => drop(record.read_unlock(owner)),
        (Verb::Unlock, "write") => drop(record.write_unlock(owner, UNIT)),
        (Verb::Unlock, _) => record.unlock(owner, UNIT),
    }
    None
}

/// The same keys, with ends as whole units from now on.
fn in_units(keys: Keys, now_ms: u64) -> Keys {
    let units = |end_ms: i64| match end_ms {
        ..0 => end_ms,
        _ => end_ms.saturating_sub_unsigned(now_ms).max(0).unsigned_abs().div_ceil(UNIT) as i64,
    };
    let is_record = |key: &String| !key.starts_with("redisson_unlock_latch");
    let keys = keys.into_iter().filter(|(key, _)| is_record(key));
    keys.map(|(key, (end_ms, fields))| (key, (units(end_ms), fields))).collect()
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        1 => Just(Verb::Force),
        9 => (1..5_u64).prop_map(Verb::Lock),
        9 => Just(Verb::Unlock),
    ]
}

#[test]
fn the_model_of_redissons_verbs_leaves_what_redisson_leaves() {
    let mut place = Place::start();
    let Some(mut java) = jvm(place.port()) else { return };
    java.tell("id");
    let uuid = java.hear().unwrap();
    let mut runner = TestRunner::deterministic();
    for kinds in [&["lock"][..], &["fenced"], &["read", "write"]] {
        let mut record = Record::default();
        place.load(&Keys::new());
        for _ in 0..VERBS {
            let drawn = (0..3_u8, proptest::sample::select(kinds), verb());
            let (thread, kind, verb) = drawn.new_tree(&mut runner).unwrap().current();
            let expected = model(&mut record, kind, &format!("{uuid}:{thread}"), verb);
            java.tell(&match verb {
                Verb::Force => format!("force {kind}"),
                Verb::Lock(units) => format!("as {thread} lock {kind} {}", units * UNIT),
                Verb::Unlock => format!("as {thread} unlock {kind}"),
            });
            let said = java.hear().unwrap();
            let what = format!("{kind} of {thread}, {verb:?}");
            if let Some(expected) = expected {
                assert_eq!(said, if expected { "yes" } else { "no" }, "{what}");
            }
            let found = in_units(place.dump(), place.now_ms());
            assert_eq!(found, in_units(keys(&record, "a", "{a}"), 0), "{what}");
        }
    }
}
