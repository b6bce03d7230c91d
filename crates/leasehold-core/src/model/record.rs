//! All that a store keeps of one name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::limits::MAX_CLOSED;
use crate::holder::{ClientId, HolderId, HolderInfo, LastHolder};
use crate::request::Request;
use crate::time::Now;
use crate::token::FencingToken;

/// The record of one name: empty unless the name is taken, awaited, or has just been.
///
/// Times are milliseconds of the store's lease clock. Each part ends by itself, as a key does that
/// expires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// Why nobody can simply set the name.
    pub gate: Option<Gate>,
    /// The waiters, by place.
    pub queue: BTreeMap<u64, Waiter>,
    /// When the queue ends, unless something changes in it.
    pub queue_until_ms: u64,
    /// The holds of readers and of permits.
    pub shares: BTreeMap<HolderId, Share>,
    /// Attempts that have ended while copies of their requests may arrive, the oldest first.
    pub closed: Vec<HolderId>,
    /// When that is forgotten.
    pub closed_until_ms: u64,
    /// The last run that has succeeded, if its holder asked the store to keep that.
    pub last: Option<Last>,
}

/// The gate of a name that is not simply free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    /// Who holds, or why nobody does.
    pub state: State,
    /// When the gate ends.
    pub until_ms: u64,
}

/// Who holds a name, or why nobody does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// One attempt holds, and somebody may wait: the gate outlives the deadline by the grace.
    Awaited(Hold),
    /// The name is free, but not for the attempts that have ended.
    Closed,
    /// Nobody holds. The name is free from `until_ms` on, but nobody can simply set it: somebody
    /// may wait.
    Cooling {
        /// When the name is free.
        until_ms: u64,
        /// Who held before, if the name cools down by its `min_hold`.
        by: Option<Request>,
    },
    /// One attempt holds, and nobody waits: the deadline is the end of the gate.
    Held(Hold),
    /// One attempt holds, but an operator has revoked the hold: it is kept no more.
    Revoked(Hold),
    /// The holders are in `shares`; the gate outlives the last of their deadlines by the grace.
    Shared {
        /// The capacity in force.
        capacity: u32,
    },
}

impl State {
    /// Whether somebody has the name, or nobody may have it yet.
    pub fn is_in_use(&self, now_ms: u64) -> bool {
        match self {
            Self::Closed => false,
            Self::Cooling { until_ms, .. } => *until_ms > now_ms,
            Self::Awaited(_) | Self::Held(_) | Self::Revoked(_) | Self::Shared { .. } => true,
        }
    }
}

/// One exclusive hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The attempt that holds.
    pub id: HolderId,
    /// The token, once the store knows it.
    pub token: Option<u64>,
    /// The facts about the holder, once the store knows them.
    pub info: HolderInfo,
}

/// The hold of a reader, or of some permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// The request that was granted.
    pub request: Request,
    /// The token.
    pub token: u64,
    /// The last millisecond of the hold.
    pub deadline_ms: u64,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The request that waits.
    pub request: Request,
    /// When the waiter asked last.
    pub asked_ms: u64,
}

/// A run that has succeeded. Its times are milliseconds of the clock of tokens: they outlive a
/// restart of the store's machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Last {
    /// The request that was granted.
    pub request: Request,
    /// The token.
    pub token: u64,
    /// When the run began.
    pub began_ms: u64,
    /// When it released.
    pub ended_ms: u64,
    /// When the store forgets it.
    pub until_ms: u64,
}

impl Last {
    /// The run as it is seen at a time.
    pub fn seen_at(&self, now: Now) -> LastHolder {
        let ago_ms = (now.token_us / 1_000).saturating_sub(self.ended_ms);
        let Request { id, info, .. } = self.request.clone();
        let (token, ago) = (FencingToken::from_micros(self.token), Duration::from_millis(ago_ms));
        LastHolder::new(id, token, Arc::unwrap_or_clone(info), ago)
    }
}

impl Record {
    /// Whether nothing of the record is worth keeping.
    pub fn is_empty(&self) -> bool {
        let Self { gate, queue, closed, last, .. } = self;
        gate.is_none() && queue.is_empty() && closed.is_empty() && last.is_none()
    }

    /// Whether somebody holds or awaits the name, or it is taken by nobody for a while.
    pub fn is_in_use(&self, now: Now) -> bool {
        let now_ms = now.lease_us / 1_000;
        let gate = self.gate.as_ref().filter(|gate| gate.until_ms >= now_ms);
        let is_taken = gate.is_some_and(|gate| gate.state.is_in_use(now_ms));
        is_taken || !self.queue.is_empty() && self.queue_until_ms >= now_ms
    }

    /// Drops what has ended.
    pub fn expire(&mut self, now: Now) {
        let now_ms = now.lease_us / 1_000;
        self.last.take_if(|last| last.until_ms < now.token_us / 1_000);
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
        self.clean();
    }

    /// Leaves nothing of a queue, or of a list, that is empty.
    pub(super) fn clean(&mut self) {
        if self.queue.is_empty() {
            self.queue_until_ms = 0;
        }
        if self.closed.is_empty() {
            self.closed_until_ms = 0;
        }
    }

    /// The clients that hold the name.
    pub fn holders(&self) -> Vec<ClientId> {
        let alone = self.hold().map(|hold| hold.id);
        self.shares.keys().copied().chain(alone).map(|id| id.client).collect()
    }

    /// The exclusive hold.
    pub fn hold(&self) -> Option<&Hold> {
        match &self.gate.as_ref()?.state {
            State::Awaited(hold) | State::Held(hold) | State::Revoked(hold) => Some(hold),
            State::Closed | State::Cooling { .. } | State::Shared { .. } => None,
        }
    }

    /// The exclusive hold, to be changed.
    pub(super) fn hold_mut(&mut self) -> Option<&mut Hold> {
        match &mut self.gate.as_mut()?.state {
            State::Awaited(hold) | State::Held(hold) | State::Revoked(hold) => Some(hold),
            State::Closed | State::Cooling { .. } | State::Shared { .. } => None,
        }
    }

    /// Whether this attempt is the exclusive holder.
    pub fn is_held_by(&self, id: HolderId) -> bool {
        self.hold().is_some_and(|hold| hold.id == id)
    }

    pub(super) fn is_revoked(&self) -> bool {
        matches!(self.gate, Some(Gate { state: State::Revoked(_), .. }))
    }

    pub(super) fn place_of(&self, id: HolderId) -> Option<u64> {
        let of_id = |waiter: &Waiter| waiter.request.id == id;
        self.queue.iter().find(|(_, waiter)| of_id(waiter)).map(|(place, _)| *place)
    }

    /// Removes a waiter. Returns whether it waited.
    pub(super) fn leave(&mut self, id: HolderId) -> bool {
        self.place_of(id).is_some_and(|place| self.queue.remove(&place).is_some())
    }

    /// How much of the capacity readers or permits have.
    pub fn used(&self) -> u32 {
        self.shares.values().map(|share| share.request.mode.weight()).sum()
    }

    /// Remembers that an attempt has ended, until `until_ms` at least. Returns until when.
    pub(super) fn close(&mut self, id: HolderId, until_ms: u64) -> u64 {
        if !self.closed.contains(&id) {
            if self.closed.len() == MAX_CLOSED {
                self.closed.remove(0);
            }
            self.closed.push(id);
        }
        self.closed_until_ms = self.closed_until_ms.max(until_ms);
        self.closed_until_ms
    }
}
