//! What is true of every record that steps have made. One that is read back and is not like that
//! was damaged: a step that reckoned with it would go wrong in ways that nobody has thought of.

use super::limits::{MAX_TOMBSTONES, MAX_WAITING};
use super::record::Record;
use super::rows::{Hold, LastHold, NEVER_US, Seen, Sweep, Waiting};
use super::table::{Holds as _, Table as _, Tables};
use crate::holder::LOCK_CAPACITY;

/// What the rows of a record must agree with, for a store that reads them one by one.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    is_lock: bool,
    last_token_us: u64,
    last_sequence: u64,
    collect_at_us: u64,
    sweep: Sweep,
}

impl Bounds {
    /// Whether this can be the hold of a slot.
    pub fn admit_hold(&self, slot: u32, hold: &Hold) -> bool {
        let is_swept = slot < self.sweep.cursor;
        [hold.change, hold.since_us, hold.ttl_us].iter().all(|number| *number <= NEVER_US)
            && hold.weight <= LOCK_CAPACITY
            && hold.token_us <= self.last_token_us
            // Else it would be forgotten while it is held, or outlive its deadline unnoticed.
            && hold.deadline_us <= self.collect_at_us
            && hold.deadline_us >= self.sweep.bound_us
            && (!is_swept || hold.deadline_us >= self.sweep.running_us)
    }

    /// Whether this can be a waiter of the record.
    pub fn admit_waiting(&self, waiting: &Waiting) -> bool {
        [waiting.since_us, waiting.ttl_us].iter().all(|number| *number <= NEVER_US)
            && waiting.weight <= waiting.capacity
            && (waiting.capacity == LOCK_CAPACITY) == self.is_lock
            && waiting.capacity <= LOCK_CAPACITY
    }

    /// Whether this can be the number of one of its waiters.
    pub fn admit_sequence(&self, sequence: u64) -> bool {
        sequence <= self.last_sequence
    }

    /// Whether this can be a client with waiters.
    pub fn admit_seen(&self, seen: &Seen) -> bool {
        seen.last_us <= NEVER_US && (1..=MAX_WAITING).contains(&(seen.waiting as usize))
    }
}

impl<T: Tables> Record<T> {
    /// What its rows must agree with.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            is_lock: self.capacity == LOCK_CAPACITY,
            last_token_us: self.last_token_us,
            last_sequence: self.last_sequence,
            collect_at_us: self.collect_at_us,
            sweep: self.sweep,
        }
    }

    /// Whether steps can have made what is no row of it, and how many rows there are.
    pub fn has_sound_head(&self) -> bool {
        let sweep = &self.sweep;
        let times = [self.last_token_us, self.last_sequence, self.collect_at_us];
        let until = self.tombstones.iter().map(|tombstone| tombstone.until_us);
        times
            .into_iter()
            .chain([sweep.bound_us, sweep.running_us, sweep.longest_ttl_us])
            .chain(until)
            .all(|us| us <= NEVER_US)
            && self.capacity <= LOCK_CAPACITY
            && self.is_same_kind(self.asked)
            // More than the capacity, if an operator has lowered that.
            && self.used <= u64::from(LOCK_CAPACITY)
            && self.tombstones.len() <= MAX_TOMBSTONES
            && self.last.as_ref().is_none_or(LastHold::is_sound)
            && sweep.cursor <= self.holds.count()
            && self.slots.count() == self.holds.count()
            && self.sequences.count() == self.queue.count()
            && self.clients.count() <= self.queue.count()
    }
}

impl Record {
    /// Whether steps can have made this record.
    pub fn is_sound(&self) -> bool {
        let bounds = self.bounds();
        self.has_sound_head()
            && self.holds.iter().zip(0..).all(|(hold, slot)| bounds.admit_hold(slot, hold))
            && self.queue.values().all(|waiting| bounds.admit_waiting(waiting))
            && self.queue.keys().all(|sequence| bounds.admit_sequence(*sequence))
            && self.clients.values().all(|seen| bounds.admit_seen(seen))
            && self.upgrading.is_none_or(|reader| self.slots.contains_key(&reader))
            && *self == self.clone().indexed()
            && self.counts_its_waiters()
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
