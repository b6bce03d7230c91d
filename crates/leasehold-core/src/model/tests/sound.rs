//! Each single property that no step can produce counts as damage.

use super::*;
use crate::model::rows::NEVER_US;

type Damage = fn(&mut Record);

/// Client 1 holds and 2 waits; an attempt of 3 has ended, and client 4 has held before.
fn sound() -> Record {
    let mut bench = Bench::new();
    bench.take(id(4, 1), Mode::Exclusive);
    bench.release(id(4, 1));
    bench.take(id(1, 1), Mode::Exclusive);
    bench.act(&Action::Acquire(bench.request(id(2, 1), Mode::Exclusive)));
    bench.act(&Action::Cancel { id: id(3, 1), unanswered: true });
    bench.record
}

/// The only waiter.
fn waiter(record: &mut Record) -> &mut Waiting {
    record.queue.values_mut().next().unwrap()
}

/// The only client with a waiter.
fn client(record: &mut Record) -> &mut Seen {
    record.clients.values_mut().next().unwrap()
}

/// Asserts that each damage alone makes a record that no step can have made.
fn assert_damaged<const N: usize>(damages: [(&str, Damage); N]) {
    for (what, damage) in damages {
        let mut record = sound();
        assert!(record.is_possible() && record.is_sound());
        damage(&mut record);
        assert!(!record.is_possible(), "{what}");
        assert!(!record.is_sound(), "{what}");
    }
}

#[test]
fn a_head_that_no_step_makes_is_damage() {
    assert_damaged([
        ("last token", |it| it.last_token_us = u64::MAX),
        ("last sequence", |it| it.last_sequence = u64::MAX),
        ("last sequence of another waiter", |it| it.last_sequence = 0),
        ("collect at", |it| it.collect_at_us = u64::MAX),
        ("bound", |it| it.sweep.bound_us = u64::MAX),
        ("running", |it| it.sweep.running_us = u64::MAX),
        ("longest ttl", |it| it.sweep.longest_ttl_us = u64::MAX),
        ("a tombstone", |it| it.tombstones[0].until_us = u64::MAX),
        ("capacity", |it| it.capacity = LOCK_CAPACITY + 1),
        ("sum of weights", |it| it.used = u64::from(LOCK_CAPACITY) + 1),
        ("tombstones", |it| it.tombstones = vec![it.tombstones[0]; MAX_TOMBSTONES + 1]),
        ("cursor", |it| it.sweep.cursor = 2),
        ("slots", |it| it.slots.clear()),
        ("sequences", |it| it.sequences.clear()),
        ("a client that was seen too late", |it| client(it).last_us = NEVER_US + 1),
    ]);
}

#[test]
fn a_hold_that_no_step_makes_is_damage() {
    assert_damaged([
        ("granted at", |it| it.holds[0].since_us = u64::MAX),
        ("ttl", |it| it.holds[0].ttl_us = u64::MAX),
        ("token", |it| it.holds[0].token_us += 1),
        ("deadline after the record's own", |it| it.holds[0].deadline_us = it.collect_at_us + 1),
        ("deadline before the bound", |it| it.holds[0].deadline_us -= 1),
        ("deadline before the earliest of those that were seen", |it| {
            it.sweep.cursor = 1;
            it.sweep.running_us = it.holds[0].deadline_us + 1;
        }),
    ]);
    let mut record = sound();
    (record.sweep.cursor, record.sweep.running_us) = (1, record.holds[0].deadline_us);
    assert!(record.is_sound(), "it has been seen");
    (record.sweep.cursor, record.sweep.running_us) = (0, record.holds[0].deadline_us + 1);
    assert!(record.is_sound(), "it has not been seen");
}

#[test]
fn a_waiter_that_no_step_makes_is_damage() {
    assert_damaged([
        ("since", |it| waiter(it).since_us = u64::MAX),
        ("ttl", |it| waiter(it).ttl_us = u64::MAX),
        ("weight", |it| waiter(it).weight = LOCK_CAPACITY + 1),
        ("it waits for permits of a lock", |it| {
            (waiter(it).weight, waiter(it).capacity) = (1, 3);
        }),
        ("more permits than there can be", |it| {
            it.capacity = 3;
            waiter(it).capacity = LOCK_CAPACITY + 1;
        }),
    ]);
}

#[test]
fn a_count_or_an_index_that_is_wrong_is_damage() {
    let damages: [(&str, Damage); 4] = [
        ("last holder", |it| it.last.as_mut().unwrap().ended_us = u64::MAX),
        ("sum of weights", |it| it.used = 1),
        ("a client that waits for less than it is said to", |it| client(it).waiting = 2),
        ("a waiter of no client", |it| it.clients.clear()),
    ];
    for (what, damage) in damages {
        let mut record = sound();
        damage(&mut record);
        assert!(!record.is_sound(), "{what}");
    }
}
