//! The record of one name: who holds it, who waits, the last token, and what must be remembered
//! of attempts that have ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CLAIM_WINDOW, MAX_TOMBSTONES};
use crate::holder::{ClientId, Facts, HoldState, HolderId, LOCK_CAPACITY, Mode};
use crate::time::micros;

/// All that a store knows of one name. Times are microseconds of the store's lease clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// How much there is to take; binds while something is held or awaited.
    pub capacity: u32,
    /// The capacity that its holders have asked for: another one than that in force once an
    /// operator has set that.
    pub asked: u32,
    /// The highest token time ever granted; zero before the first.
    pub last_token_us: u64,
    /// The holds, in no order that means anything: a removed one is replaced by the last.
    pub holds: Vec<Hold>,
    /// How far the search for expired holds is.
    pub sweep: Sweep,
    /// The reader that waits to become the writer; nobody is admitted meanwhile.
    pub upgrading: Option<HolderId>,
    /// Who waits, by the number drawn on joining.
    pub queue: BTreeMap<u64, Waiting>,
    /// The number of the last waiter that joined; begins again when the queue is empty.
    pub last_sequence: u64,
    /// When each client with a waiter was last seen.
    pub clients: BTreeMap<ClientId, Seen>,
    /// Attempts that have ended and of which a copy may still arrive; the oldest first.
    pub tombstones: Vec<Tombstone>,
    /// When the record may be forgotten.
    pub collect_at_us: u64,
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// Which attempt.
    pub id: HolderId,
    /// How much of the capacity it takes.
    pub weight: u32,
    /// How far it is in its life.
    pub state: HoldState,
    /// Its token.
    pub token_us: u64,
    /// When it was granted.
    pub since_us: u64,
    /// When it ends.
    pub deadline_us: u64,
    /// For how long it was last confirmed, or is kept.
    pub ttl_us: u64,
    /// The highest number of a change of its mode that was asked for; 0 before the first.
    pub change: u64,
    /// The attempt's secret.
    pub nonce: u64,
    /// Whose it is.
    pub facts: Facts,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// Which attempt.
    pub id: HolderId,
    /// How much of the capacity it asks for.
    pub weight: u32,
    /// The capacity it asks for.
    pub capacity: u32,
    /// For how long.
    pub ttl_us: u64,
    /// When it joined.
    pub since_us: u64,
    /// The attempt's secret.
    pub nonce: u64,
    /// Whose it is.
    pub facts: Facts,
}

/// A client with waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seen {
    /// When it last asked.
    pub last_us: u64,
    /// How many of its attempts wait.
    pub waiting: u32,
}

/// The highest finished attempt of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tombstone {
    /// Whose.
    pub client: ClientId,
    /// This attempt and any before are over.
    pub attempt: u64,
    /// When that may be forgotten.
    pub until_us: u64,
}

/// The search for expired holds. It looks at a bounded number per step, so it carries over where
/// it is, and keeps a lower bound of all deadlines so that most steps need not look at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sweep {
    /// The next hold to look at.
    pub cursor: u32,
    /// No hold ends before this.
    pub bound_us: u64,
    /// The earliest deadline among the holds before the cursor.
    pub running_us: u64,
    /// The longest ttl among the holds. A bound further away than this says that the store's
    /// clock went back.
    pub longest_ttl_us: u64,
}

/// No deadline: larger than any time (2⁵³ − 1 µs, which a script's numbers hold exactly).
pub(super) const NEVER_US: u64 = (1 << 53) - 1;

impl Default for Sweep {
    fn default() -> Self {
        Self { cursor: 0, bound_us: NEVER_US, running_us: NEVER_US, longest_ttl_us: 0 }
    }
}

impl Sweep {
    /// A hold ends at `deadline_us`, earlier than was known.
    pub(super) fn expect(&mut self, index: usize, deadline_us: u64) {
        self.bound_us = self.bound_us.min(deadline_us);
        if index < self.cursor as usize {
            self.running_us = self.running_us.min(deadline_us);
        }
    }
}

impl Hold {
    /// The deadline, brought back to what the ttl allows if the store's clock went back.
    pub(super) fn clamp(&mut self, now_us: u64) -> u64 {
        self.deadline_us = self.deadline_us.min(now_us + self.ttl_us + micros(CLAIM_WINDOW));
        self.deadline_us
    }

    /// What it is a hold of, in a record of this capacity.
    pub(super) fn mode(&self, capacity: u32) -> Mode {
        Mode::of(self.weight, capacity)
    }
}

impl Record {
    /// Whether nobody holds or awaits the name.
    pub fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.queue.is_empty()
    }

    /// Forgets all holds, waiters and attempts, but not the last token: after the machine was
    /// restarted, nobody is left.
    pub fn forget_everyone(&mut self) {
        *self = Self { last_token_us: self.last_token_us, ..Self::default() };
    }

    pub(super) fn used(&self) -> u64 {
        self.holds.iter().map(|hold| u64::from(hold.weight)).sum()
    }

    /// Whether it is in use as what this capacity is one of: a lock, or a semaphore.
    pub(super) fn is_same_kind(&self, capacity: u32) -> bool {
        (self.capacity == LOCK_CAPACITY) == (capacity == LOCK_CAPACITY)
    }

    /// Whether a request shares what there is with those who hold: see [`super::acquire`].
    pub(super) fn admits(&self, weight: u32, capacity: u32) -> bool {
        [self.capacity, self.asked].contains(&capacity) && weight <= self.capacity
    }

    /// Whether a request can be granted if it is its turn.
    pub(super) fn fits(&self, weight: u32, capacity: u32) -> bool {
        match self.admits(weight, capacity) {
            true => self.used() + u64::from(weight) <= u64::from(self.capacity),
            false => self.holds.is_empty(),
        }
    }

    /// From now on this is the capacity, by whoever asks for it.
    pub(super) fn begin_with(&mut self, capacity: u32) {
        (self.capacity, self.asked) = (capacity, capacity);
    }

    pub(super) fn hold_of(&self, id: HolderId) -> Option<usize> {
        self.holds.iter().position(|hold| hold.id == id)
    }

    pub(super) fn add_hold(&mut self, hold: Hold) {
        self.sweep.bound_us = self.sweep.bound_us.min(hold.deadline_us);
        self.sweep.longest_ttl_us = self.sweep.longest_ttl_us.max(hold.ttl_us);
        self.holds.push(hold);
    }

    /// Removes a hold; the last one takes its place.
    pub(super) fn remove_hold(&mut self, index: usize) -> Hold {
        let removed = self.holds.swap_remove(index);
        if self.upgrading == Some(removed.id) {
            self.upgrading = None;
        }
        if self.holds.is_empty() {
            self.sweep = Sweep::default();
        } else if let Some(moved) = self.holds.get(index)
            && index < self.sweep.cursor as usize
        {
            // It came from where the sweep has not been to where it will not come again.
            self.sweep.running_us = self.sweep.running_us.min(moved.deadline_us);
        }
        self.sweep.cursor = self.sweep.cursor.min(self.holds.len() as u32);
        removed
    }

    pub(super) fn waiting_of(&self, id: HolderId) -> Option<u64> {
        self.queue.iter().find(|(_, waiting)| waiting.id == id).map(|(sequence, _)| *sequence)
    }

    pub(super) fn join(&mut self, waiting: Waiting, now_us: u64) -> u64 {
        let client = waiting.id.client;
        let seen = self.clients.entry(client).or_insert(Seen { last_us: now_us, waiting: 0 });
        seen.last_us = now_us;
        seen.waiting += 1;
        self.last_sequence += 1;
        self.queue.insert(self.last_sequence, waiting);
        self.last_sequence
    }

    pub(super) fn leave(&mut self, sequence: u64) -> Option<Waiting> {
        let waiting = self.queue.remove(&sequence)?;
        if let Some(seen) = self.clients.get_mut(&waiting.id.client) {
            seen.waiting -= 1;
            if seen.waiting == 0 {
                self.clients.remove(&waiting.id.client);
            }
        }
        if self.queue.is_empty() {
            self.last_sequence = 0;
        }
        Some(waiting)
    }

    /// At most how many come before `sequence`: exact unless somebody between has left.
    pub(super) fn ahead_of(&self, sequence: u64) -> u32 {
        let head = self.queue.keys().next().copied().unwrap_or(sequence);
        let most = (self.queue.len() as u64).saturating_sub(1);
        (sequence - head).min(most) as u32
    }

    pub(super) fn is_finished(&self, id: HolderId, now_us: u64) -> bool {
        self.tombstones.iter().any(|tombstone| {
            tombstone.client == id.client
                && tombstone.attempt >= id.attempt
                && tombstone.until_us > now_us
        })
    }

    pub(super) fn add_tombstone(&mut self, id: HolderId, now_us: u64, until_us: u64) {
        self.tombstones.retain(|tombstone| tombstone.until_us > now_us);
        let of_client = self.tombstones.iter().position(|old| old.client == id.client);
        let before = of_client.map(|index| self.tombstones.remove(index).attempt);
        let attempt = before.unwrap_or(0).max(id.attempt);
        if self.tombstones.len() == MAX_TOMBSTONES {
            self.tombstones.remove(0);
        }
        self.tombstones.push(Tombstone { client: id.client, attempt, until_us });
    }
}
