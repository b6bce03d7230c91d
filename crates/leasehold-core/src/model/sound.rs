//! The invariants of every record that steps have made. If a record that is read back breaks one of
//! them, it was damaged. A step on such a record could go wrong in unforeseen ways.

use std::collections::BTreeMap;

use super::limits::{MAX_TOMBSTONES, MAX_WAITING};
use super::record::Record;
use super::rows::{Hold, NEVER_US, Waiting};
use crate::holder::LOCK_CAPACITY;

impl Record {
    /// Whether steps can have made this record.
    pub fn is_sound(&self) -> bool {
        self.is_possible() && *self == self.clone().indexed() && self.counts_its_waiters()
    }

    /// Whether steps can have made this record, if its indexes and its counts are right.
    pub(super) fn is_possible(&self) -> bool {
        let sweep = &self.sweep;
        let times = [self.last_token_us, self.last_sequence, self.collect_at_us];
        let seen = self.clients.values().map(|seen| seen.last_us);
        times
            .into_iter()
            .chain([sweep.bound_us, sweep.running_us, sweep.longest_ttl_us])
            .chain(self.tombstones.iter().map(|tombstone| tombstone.until_us))
            .chain(seen)
            .all(|us| us <= NEVER_US)
            && self.capacity <= LOCK_CAPACITY
            && self.used <= u64::from(self.capacity)
            && self.tombstones.len() <= MAX_TOMBSTONES
            && self.last.as_ref().is_none_or(|last| last.ended_us <= NEVER_US)
            && sweep.cursor <= self.holds.len()
            && self.slots.len() == self.holds.len()
            && self.sequences.len() == self.queue.len()
            && self.queue.len() <= MAX_WAITING
            && self.queue.last_key_value().is_none_or(|(last, _)| *last <= self.last_sequence)
            && self.holds.iter().enumerate().all(|(slot, hold)| self.may_hold(slot, hold))
            && self.queue.values().all(|waiting| self.may_wait(waiting))
    }

    fn may_hold(&self, slot: usize, hold: &Hold) -> bool {
        let is_swept = slot < self.sweep.cursor;
        [hold.since_us, hold.ttl_us].iter().all(|number| *number <= NEVER_US)
            && hold.token_us <= self.last_token_us
            // Otherwise the record would be forgotten while the hold lives, or the hold would
            // outlive its deadline unnoticed.
            && hold.deadline_us <= self.collect_at_us
            && hold.deadline_us >= self.sweep.bound_us
            && (!is_swept || hold.deadline_us >= self.sweep.running_us)
    }

    fn may_wait(&self, waiting: &Waiting) -> bool {
        [waiting.since_us, waiting.ttl_us].iter().all(|number| *number <= NEVER_US)
            && waiting.weight <= waiting.capacity
            && self.is_same_kind(waiting.capacity)
            && waiting.capacity <= LOCK_CAPACITY
    }

    /// Whether the count of waiting attempts is right for each client.
    fn counts_its_waiters(&self) -> bool {
        let mut counts = BTreeMap::new();
        self.queue.values().for_each(|it| *counts.entry(it.id.client).or_insert(0) += 1);
        counts.into_iter().eq(self.clients.iter().map(|(client, seen)| (*client, seen.waiting)))
    }
}
