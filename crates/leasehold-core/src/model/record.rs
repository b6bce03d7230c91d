//! The record of one name: its holders, its waiters, the last token, and facts about ended
//! attempts.

use std::collections::BTreeMap;

use super::limits::MAX_TOMBSTONES;
use super::rows::{Hold, LastHold, Seen, Sweep, Tombstone, Waiting};
use crate::bugs::{self, Bug};
use crate::holder::{ClientId, HolderId, LOCK_CAPACITY};

/// All facts of a store about one name. Times are microseconds of the store's lease clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The capacity in force; it binds while something is held or awaited.
    pub capacity: u32,
    /// The part of the capacity that is taken: the sum of the weights of the holds.
    pub used: u64,
    /// The highest token time ever granted; zero before the first.
    pub last_token_us: u64,
    /// The holds, in arbitrary order: a removed hold is replaced by the last one.
    pub holds: Vec<Hold>,
    /// The slot of each attempt's hold.
    pub slots: BTreeMap<HolderId, usize>,
    /// The state of the search for expired holds.
    pub sweep: Sweep,
    /// The waiters, by the number drawn on joining.
    pub queue: BTreeMap<u64, Waiting>,
    /// The number of each waiting attempt.
    pub sequences: BTreeMap<HolderId, u64>,
    /// The number of the last waiter that joined. Numbers begin again when the queue is empty.
    pub last_sequence: u64,
    /// When each client with a waiter was last seen.
    pub clients: BTreeMap<ClientId, Seen>,
    /// Ended attempts of which a request may still arrive; the oldest first.
    pub tombstones: Vec<Tombstone>,
    /// The hold that was released last.
    pub last: Option<LastHold>,
    /// When the record may be forgotten.
    pub collect_at_us: u64,
}

impl Record {
    /// The same record with the values that are computed from its holds and its queue: how much is
    /// taken, and where each attempt is.
    #[must_use]
    pub fn indexed(mut self) -> Self {
        self.used = self.holds.iter().map(|hold| u64::from(hold.weight)).sum();
        self.slots = self.holds.iter().map(|hold| hold.id).zip(0..).collect();
        self.sequences = self.queue.iter().map(|(at, waiting)| (waiting.id, *at)).collect();
        self
    }

    /// Whether nobody holds or awaits the name.
    pub fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.queue.is_empty()
    }

    /// Whether the name is in use as the kind of lock that has this capacity: a lock, or a
    /// semaphore.
    pub(super) fn is_same_kind(&self, capacity: u32) -> bool {
        (self.capacity == LOCK_CAPACITY) == (capacity == LOCK_CAPACITY)
    }

    /// Whether a request can be granted if it is its turn: see [`super::acquire`].
    pub(super) fn fits(&self, weight: u32, capacity: u32) -> bool {
        match capacity == self.capacity {
            true => self.used + u64::from(weight) <= u64::from(capacity),
            false => self.holds.is_empty(),
        }
    }

    /// The slot of an attempt's hold.
    pub(super) fn hold_of(&self, id: HolderId) -> Option<usize> {
        self.slots.get(&id).copied()
    }

    /// Adds a hold and returns its slot.
    pub(super) fn add_hold(&mut self, hold: Hold) -> usize {
        self.sweep.bound_us = self.sweep.bound_us.min(hold.deadline_us);
        self.sweep.longest_ttl_us = self.sweep.longest_ttl_us.max(hold.ttl_us);
        self.used += u64::from(hold.weight);
        let slot = self.holds.len();
        self.slots.insert(hold.id, slot);
        self.holds.push(hold);
        slot
    }

    /// Removes a hold; the last hold takes its slot.
    pub(super) fn remove_hold(&mut self, slot: usize) -> Option<Hold> {
        let last = self.holds.pop()?;
        let removed = if slot < self.holds.len() {
            if slot < self.sweep.cursor {
                // The sweep has not checked this hold yet, and will not come back to its new slot.
                self.sweep.running_us = self.sweep.running_us.min(last.deadline_us);
            }
            self.slots.insert(last.id, slot);
            std::mem::replace(&mut self.holds[slot], last)
        } else {
            last
        };
        self.slots.remove(&removed.id);
        self.used = self.used.saturating_sub(removed.weight.into());
        if self.holds.is_empty() {
            self.sweep = Sweep::default();
        }
        self.sweep.cursor = self.sweep.cursor.min(self.holds.len());
        Some(removed)
    }

    /// Gives a hold to another attempt.
    pub(super) fn set_id(&mut self, slot: usize, id: HolderId) {
        let before = std::mem::replace(&mut self.holds[slot].id, id);
        self.slots.remove(&before);
        self.slots.insert(id, slot);
    }

    pub(super) fn waiting_of(&self, id: HolderId) -> Option<u64> {
        self.sequences.get(&id).copied()
    }

    pub(super) fn join(&mut self, waiting: Waiting, now_us: u64) -> u64 {
        let client = waiting.id.client;
        let seen = self.clients.entry(client).or_insert(Seen { last_us: now_us, waiting: 0 });
        *seen = Seen { last_us: now_us, waiting: seen.waiting + 1 };
        if bugs::is_on(Bug::SequenceWraps) {
            self.last_sequence %= 4;
        }
        self.last_sequence += 1;
        self.sequences.insert(waiting.id, self.last_sequence);
        self.queue.insert(self.last_sequence, waiting);
        self.last_sequence
    }

    pub(super) fn leave(&mut self, sequence: u64) -> Option<Waiting> {
        let waiting = self.queue.remove(&sequence)?;
        self.sequences.remove(&waiting.id);
        if let Some(seen) = self.clients.get_mut(&waiting.id.client) {
            seen.waiting = seen.waiting.saturating_sub(1);
            if seen.waiting == 0 {
                self.clients.remove(&waiting.id.client);
            }
        }
        if self.queue.is_empty() {
            self.last_sequence = 0;
        }
        Some(waiting)
    }

    /// The largest number of waiters before `sequence`: exact unless one of them has left.
    pub(super) fn ahead_of(&self, sequence: u64) -> u32 {
        let head = self.queue.first_key_value().map_or(sequence, |(head, _)| *head);
        let most = self.queue.len().saturating_sub(1);
        sequence.saturating_sub(head).min(most as u64) as u32
    }

    pub(super) fn is_finished(&self, id: HolderId, now_us: u64) -> bool {
        self.tombstones.iter().any(|tombstone| {
            tombstone.client == id.client
                && tombstone.attempt >= id.attempt
                && tombstone.until_us > now_us
        })
    }

    /// Whether an operator has ended the hold of this very attempt.
    pub(super) fn is_revoked(&self, id: HolderId, now_us: u64) -> bool {
        self.tombstones.iter().any(|tombstone| {
            let of = HolderId { client: tombstone.client, attempt: tombstone.attempt };
            tombstone.revoked && of == id && tombstone.until_us > now_us
        })
    }

    /// Adds a tombstone in place of the client's present one. The later end and the later attempt
    /// of the two are kept.
    pub(super) fn add_tombstone(&mut self, mut tombstone: Tombstone, now_us: u64) {
        self.tombstones.retain(|old| old.until_us > now_us);
        let client = tombstone.client;
        if let Some(index) = self.tombstones.iter().position(|old| old.client == client) {
            let old = self.tombstones.remove(index);
            tombstone.until_us = tombstone.until_us.max(old.until_us);
            if old.attempt >= tombstone.attempt {
                (tombstone.attempt, tombstone.revoked) = (old.attempt, old.revoked);
            }
        }
        if self.tombstones.len() == MAX_TOMBSTONES {
            self.tombstones.remove(0);
        }
        self.tombstones.push(tombstone);
    }
}
