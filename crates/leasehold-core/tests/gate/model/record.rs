//! All that a store keeps of one name.

use std::collections::BTreeMap;

use leasehold_core::{HolderId, HolderInfo, Mode};

use super::MAX_CLOSED;

/// The record of one name: empty unless the name is taken, awaited, or has just been.
///
/// Times are milliseconds of the store's lease clock. Each part ends by itself, as a key does that
/// expires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Why nobody can simply set the name.
    pub(crate) gate: Option<Gate>,
    /// The waiters, by place.
    pub(crate) queue: BTreeMap<u64, Waiter>,
    /// When the queue ends, unless something changes in it.
    pub(crate) queue_until_ms: u64,
    /// The holds of readers and of permits.
    pub(crate) shares: BTreeMap<HolderId, Share>,
    /// Attempts that have ended while copies of their requests may arrive, the oldest first.
    pub(crate) closed: Vec<HolderId>,
    pub(crate) closed_until_ms: u64,
}

/// The gate of a name that is not simply free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gate {
    pub(crate) state: State,
    /// When the gate ends.
    pub(crate) until_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// One attempt holds, and nobody waits: the deadline is the end of the gate.
    Held(Hold),
    /// One attempt holds, and somebody may wait: the gate outlives the deadline by the grace.
    Awaited(Hold),
    /// The same, and an operator has revoked the hold: it is kept no more.
    Revoked(Hold),
    /// The holders are in `shares`; the gate outlives the last of their deadlines by the grace.
    Shared { capacity: u32 },
    /// Nobody holds. The name is free from `until_ms` on, but nobody can simply set it: somebody
    /// waits, or it says who held last.
    Cooling { until_ms: u64, last: Option<Last> },
    /// The name is free, but not for the attempts that have ended.
    Closed,
}

/// One exclusive hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) id: HolderId,
    /// The token, once the store knows it.
    pub(crate) token: Option<u64>,
    /// The facts about the holder, once the store knows them.
    pub(crate) info: HolderInfo,
}

/// The hold of a reader, or of some permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Share {
    pub(crate) weight: u32,
    pub(crate) deadline_ms: u64,
    pub(crate) info: HolderInfo,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) id: HolderId,
    pub(crate) mode: Mode,
    pub(crate) info: HolderInfo,
    /// When the waiter asked last.
    pub(crate) asked_ms: u64,
}

/// Who held last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Last {
    pub(crate) id: HolderId,
    pub(crate) info: HolderInfo,
    pub(crate) ended_ms: u64,
}

impl Record {
    /// Drops what has ended.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        self.gate.take_if(|gate| gate.until_ms < now_ms);
        if self.queue_until_ms < now_ms {
            self.queue.clear();
        }
        if self.closed_until_ms < now_ms {
            self.closed.clear();
        }
        if !matches!(self.gate, Some(Gate { state: State::Shared { .. }, .. })) {
            // Shares count only behind the gate that was written with them.
            self.shares.clear();
        }
    }

    /// Nothing is left of a queue, or of a list, that is empty.
    pub(crate) fn clean(&mut self) {
        if self.queue.is_empty() {
            self.queue_until_ms = 0;
        }
        if self.closed.is_empty() {
            self.closed_until_ms = 0;
        }
    }

    /// The exclusive hold, with the end of its gate.
    pub(super) fn hold(&mut self) -> Option<&mut Hold> {
        match &mut self.gate.as_mut()?.state {
            State::Held(hold) | State::Awaited(hold) | State::Revoked(hold) => Some(hold),
            State::Shared { .. } | State::Cooling { .. } | State::Closed => None,
        }
    }

    /// Whether this attempt is the exclusive holder.
    pub(super) fn is_held_by(&mut self, id: HolderId) -> bool {
        self.hold().is_some_and(|hold| hold.id == id)
    }

    pub(super) fn place_of(&self, id: HolderId) -> Option<u64> {
        self.queue.iter().find(|(_, waiter)| waiter.id == id).map(|(place, _)| *place)
    }

    /// Removes a waiter. Returns whether it waited.
    pub(super) fn leave(&mut self, id: HolderId) -> bool {
        self.place_of(id).is_some_and(|place| self.queue.remove(&place).is_some())
    }

    pub(crate) fn used(&self) -> u32 {
        self.shares.values().map(|share| share.weight).sum()
    }

    /// Remembers that an attempt has ended, until `until_ms` at least.
    pub(super) fn close(&mut self, id: HolderId, until_ms: u64) {
        if !self.closed.contains(&id) {
            if self.closed.len() == MAX_CLOSED {
                self.closed.remove(0);
            }
            self.closed.push(id);
        }
        self.closed_until_ms = self.closed_until_ms.max(until_ms);
    }
}
