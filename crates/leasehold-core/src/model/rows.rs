//! The parts of a record: a hold, a waiter, a client with waiters, an ended attempt, and the hold
//! that was released last.

use std::time::Duration;

use super::limits::CLAIM_WINDOW;
use crate::holder::{ClientId, HoldState, HolderId, HolderInfo, LastHolder, Mode};
use crate::time::micros;

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The attempt that holds.
    pub id: HolderId,
    /// The part of the capacity that it takes.
    pub weight: u32,
    /// The state of the hold.
    pub state: HoldState,
    /// The token of the hold.
    pub token_us: u64,
    /// The time of the grant.
    pub since_us: u64,
    /// The time at which the hold ends.
    pub deadline_us: u64,
    /// The ttl of the last confirmation, or the length of the cooldown.
    pub ttl_us: u64,
    /// The attempt's secret.
    pub nonce: u64,
    /// The facts about the holder.
    pub info: HolderInfo,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// The attempt that waits.
    pub id: HolderId,
    /// The part of the capacity that it asks for.
    pub weight: u32,
    /// The capacity it asks for.
    pub capacity: u32,
    /// The ttl that it asks for.
    pub ttl_us: u64,
    /// The time at which it joined.
    pub since_us: u64,
    /// The attempt's secret.
    pub nonce: u64,
    /// The facts about the waiter.
    pub info: HolderInfo,
}

/// A client with waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The time of its last request.
    pub last_us: u64,
    /// The number of its attempts that wait.
    pub waiting: u32,
}

/// The highest finished attempt of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tombstone {
    /// The client.
    pub client: ClientId,
    /// The attempt that has ended, like all earlier attempts of the client.
    pub attempt: u64,
    /// The time at which the tombstone may be forgotten.
    pub until_us: u64,
    /// Whether an operator ended this attempt's hold without waiting for the holder. Its next
    /// renewal reports that.
    pub revoked: bool,
}

/// A hold that was released.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastHold {
    /// The attempt that held.
    pub id: HolderId,
    /// The time of the release.
    pub ended_us: u64,
    /// The facts about the holder.
    pub info: HolderInfo,
}

/// The search for expired holds. Each step checks a bounded number of holds, so the search keeps
/// its position for the next step. It also keeps a lower bound of all deadlines, so most steps need
/// not check any hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// The next hold to check.
    pub cursor: usize,
    /// The lower bound of all deadlines: no hold ends before this time.
    pub bound_us: u64,
    /// The earliest deadline among the holds before the cursor.
    pub running_us: u64,
    /// The longest ttl among the holds. A bound that is further ahead than this shows that the
    /// store's clock went back.
    pub longest_ttl_us: u64,
}

/// The value for no deadline: larger than any time (2⁵³ − 1 µs, which a script's numbers can hold
/// exactly).
pub(super) const NEVER_US: u64 = (1 << 53) - 1;

impl Default for Sweep {
    fn default() -> Self {
        Self { cursor: 0, bound_us: NEVER_US, running_us: NEVER_US, longest_ttl_us: 0 }
    }
}

impl Sweep {
    /// Lowers the bounds for a hold that ends at `deadline_us`, which may be earlier than the
    /// search expected.
    pub(super) fn expect(&mut self, slot: usize, deadline_us: u64) {
        self.bound_us = self.bound_us.min(deadline_us);
        if slot < self.cursor {
            self.running_us = self.running_us.min(deadline_us);
        }
    }
}

impl Hold {
    /// The deadline. If the store's clock went back, the deadline is first reduced to the latest
    /// one that the ttl allows.
    pub(super) fn clamp(&mut self, now_us: u64) -> u64 {
        self.deadline_us = self.deadline_us.min(now_us + self.ttl_us + micros(CLAIM_WINDOW));
        self.deadline_us
    }

    /// The mode of the hold, in a record of this capacity.
    pub(super) fn mode(&self, capacity: u32) -> Mode {
        Mode::of(self.weight, capacity)
    }
}

impl LastHold {
    /// The last holder, as seen at a given time.
    pub fn at(&self, now_us: u64) -> LastHolder {
        let ended_ago = Duration::from_micros(now_us.saturating_sub(self.ended_us));
        LastHolder::new(self.id).with_info(self.info.clone()).with_ended_ago(ended_ago)
    }
}
