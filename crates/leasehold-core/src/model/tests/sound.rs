//! What no step makes is damage, each thing alone.

use super::*;
use crate::model::limits::MAX_TOMBSTONES;

type Damage = fn(&mut Record);

/// Client 1 holds and 2 waits; an attempt of 3 has ended.
fn sound() -> Record {
    let mut bench = Bench::held();
    bench.act(&Action::Acquire(bench.request(id(2, 1), Mode::Exclusive)));
    bench.act(&Action::Cancel { id: id(3, 1), unanswered: true });
    bench.record
}

#[test]
fn a_head_that_no_step_makes_is_damage() {
    assert!(sound().has_sound_head());
    let damages: [(&str, Damage); 14] = [
        ("last token", |it| it.last_token_us = u64::MAX),
        ("last sequence", |it| it.last_sequence = u64::MAX),
        ("collect at", |it| it.collect_at_us = u64::MAX),
        ("bound", |it| it.sweep.bound_us = u64::MAX),
        ("running", |it| it.sweep.running_us = u64::MAX),
        ("longest ttl", |it| it.sweep.longest_ttl_us = u64::MAX),
        ("a tombstone", |it| it.tombstones[0].until_us = u64::MAX),
        ("capacity", |it| it.capacity = LOCK_CAPACITY + 1),
        ("capacity that was asked for", |it| it.asked = 3),
        ("sum of weights", |it| it.used = u64::from(LOCK_CAPACITY) + 1),
        ("tombstones", |it| it.tombstones = vec![it.tombstones[0]; MAX_TOMBSTONES + 1]),
        ("cursor", |it| it.sweep.cursor = 2),
        ("slots", |it| it.slots.clear()),
        ("sequences", |it| it.sequences.clear()),
    ];
    for (what, damage) in damages {
        let mut record = sound();
        damage(&mut record);
        assert!(!record.has_sound_head(), "{what}");
    }
    let mut record = sound();
    let seen = *record.clients.values().next().unwrap();
    record.clients.insert(ClientId(9), seen);
    assert!(!record.has_sound_head(), "more clients than waiters");
}
