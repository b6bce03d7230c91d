//! What is true of every record that steps have made. One that is read back and is not like that
//! was damaged: a step that reckoned with it would go wrong in ways that nobody has thought of.

use super::MAX_TOMBSTONES;
use super::record::{NEVER_US, Record};
use crate::holder::LOCK_CAPACITY;

impl Record {
    /// Whether steps can have made this record. It is cheap beside reading the record.
    pub fn is_sound(&self) -> bool {
        let holds = self.holds.iter();
        self.times().all(|us| us <= NEVER_US)
            && self.capacity <= LOCK_CAPACITY
            && self.is_same_kind(self.asked)
            // More than the capacity, if an operator has lowered that.
            && self.used() <= u64::from(LOCK_CAPACITY)
            && self.queue.values().all(|waiting| waiting.weight <= waiting.capacity)
            && self.queue.values().all(|waiting| self.is_same_kind(waiting.capacity))
            && self.queue.last_key_value().is_none_or(|(last, _)| *last <= self.last_sequence)
            && self.upgrading.is_none_or(|reader| self.hold_of(reader).is_some())
            && self.tombstones.len() <= MAX_TOMBSTONES
            && holds.clone().all(|hold| hold.token_us <= self.last_token_us)
            // Else it would be forgotten while it is held.
            && holds.clone().all(|hold| hold.deadline_us <= self.collect_at_us)
            && self.is_swept_in_time()
            && self.counts_its_waiters()
    }

    /// All that must be a time, a span or a number that grows by one.
    fn times(&self) -> impl Iterator<Item = u64> {
        let Self { sweep, last_token_us, last_sequence, collect_at_us, .. } = self;
        let own = [*last_token_us, *last_sequence, *collect_at_us];
        let holds = self.holds.iter();
        own.into_iter()
            .chain([sweep.bound_us, sweep.running_us, sweep.longest_ttl_us])
            .chain(holds.clone().map(|hold| hold.change))
            .chain(holds.flat_map(|hold| [hold.since_us, hold.deadline_us, hold.ttl_us]))
            .chain(self.queue.values().flat_map(|waiting| [waiting.since_us, waiting.ttl_us]))
            .chain(self.clients.values().map(|seen| seen.last_us))
            .chain(self.tombstones.iter().map(|tombstone| tombstone.until_us))
    }

    /// Whether no hold would outlive its deadline unnoticed.
    fn is_swept_in_time(&self) -> bool {
        let cursor = self.sweep.cursor as usize;
        cursor <= self.holds.len()
            && self.holds.iter().all(|hold| self.sweep.bound_us <= hold.deadline_us)
            && self.holds.iter().take(cursor).all(|hold| self.sweep.running_us <= hold.deadline_us)
    }

    /// Whether it knows of each client how many of its attempts wait.
    fn counts_its_waiters(&self) -> bool {
        let mut uncounted = self.clients.clone();
        let all_known = self.queue.values().all(|waiting| {
            let seen = uncounted.get_mut(&waiting.id.client);
            let left = seen.and_then(|seen| {
                seen.waiting = seen.waiting.checked_sub(1)?;
                Some(())
            });
            left.is_some()
        });
        all_known && uncounted.values().all(|seen| seen.waiting == 0)
    }
}
