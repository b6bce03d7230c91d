//! The properties of every record.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Checks the properties of every record, whatever has happened to it.
pub(super) fn check_record(record: &Record, now_us: u64) {
    assert!(record.is_sound(), "a store would take it for damaged: {record:#?}");
    assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(record));
    let ids: BTreeSet<_> = record.holds.iter().map(|hold| hold.id).collect();
    assert_eq!(ids.len(), record.holds.len(), "an attempt holds twice");
    assert!(record.queue.values().all(|waiting| !ids.contains(&waiting.id)));
    let sweep = record.sweep;
    assert!(sweep.cursor <= record.holds.len());
    for (index, hold) in record.holds.iter().enumerate() {
        assert!(sweep.bound_us <= hold.deadline_us, "the bound is above a deadline");
        let is_behind = index < sweep.cursor;
        assert!(!is_behind || sweep.running_us <= hold.deadline_us, "a moved hold is forgotten");
        assert!(record.collect_at_us >= hold.deadline_us + micros(RETENTION));
    }
    let mut waiting = BTreeMap::<_, u32>::new();
    for waiter in record.queue.values() {
        *waiting.entry(waiter.id.client).or_default() += 1;
    }
    let counted: BTreeMap<_, _> = record.clients.iter().map(|(id, s)| (*id, s.waiting)).collect();
    assert_eq!(counted, waiting);
    assert!(record.tombstones.len() <= MAX_TOMBSTONES);
    let is_untouched = *record == Record::default();
    assert!(is_untouched || record.collect_at_us >= now_us.min(micros(RETENTION)));
    if record.is_idle() {
        assert_eq!((record.sweep, record.last_sequence), (Sweep::default(), 0));
    }
}
