//! What is true of every record.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn the_rows_beside_a_key_are_found_whether_it_is_there_or_not() {
    let mut table = BTreeMap::from([(2_u64, ()), (5, ()), (7, ())]);
    assert_eq!([0, 5, 6, 8].map(|from| table.next(from)), [Some(2), Some(5), Some(7), None]);
    assert_eq!([2, 5, 6, 8].map(|below| table.previous(below)), [None, Some(2), Some(5), Some(7)]);
}

/// What is true of every record, whatever has happened to it.
pub(super) fn check_record(record: &Record, now_us: u64) {
    assert!(record.is_sound(), "a store would take it for damaged: {record:#?}");
    let ids: BTreeSet<_> = record.holds.iter().map(|hold| hold.id).collect();
    assert_eq!(ids.len(), record.holds.len(), "an attempt holds twice");
    assert!(record.upgrading.is_none_or(|reader| ids.contains(&reader)));
    assert!(record.queue.values().all(|waiting| !ids.contains(&waiting.id)));
    let sweep = record.sweep;
    assert!(sweep.cursor as usize <= record.holds.len());
    for (index, hold) in record.holds.iter().enumerate() {
        assert!(sweep.bound_us <= hold.deadline_us, "the bound is above a deadline");
        let is_behind = index < sweep.cursor as usize;
        assert!(!is_behind || sweep.running_us <= hold.deadline_us, "a moved hold is forgotten");
        assert!(record.collect_at_us >= hold.deadline_us + micros(DEFAULT_RETENTION));
    }
    let mut waiting = BTreeMap::<_, u32>::new();
    for waiter in record.queue.values() {
        *waiting.entry(waiter.id.client).or_default() += 1;
    }
    let counted: BTreeMap<_, _> = record.clients.iter().map(|(id, s)| (*id, s.waiting)).collect();
    assert_eq!(counted, waiting);
    assert!(record.tombstones.len() <= MAX_TOMBSTONES);
    let is_untouched = *record == Record::default();
    assert!(is_untouched || record.collect_at_us >= now_us.min(micros(DEFAULT_RETENTION)));
    if record.is_idle() {
        assert_eq!((record.sweep, record.upgrading), (Sweep::default(), None));
        assert_eq!(record.last_sequence, 0);
    }
}
