//! What a record is made of: a hold, a waiter, a client that waits, an attempt that has ended, and
//! a hold that has.

use std::time::Duration;

use super::limits::CLAIM_WINDOW;
use crate::holder::{ClientId, Ending, HoldState, HolderId, HolderInfo, LOCK_CAPACITY};
use crate::holder::{LastHolder, Mode};
use crate::time::micros;
use crate::token::FencingToken;

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// For how long it was last confirmed, or its cooldown lasts.
    pub ttl_us: u64,
    /// The highest number of a change of its mode that was asked for; 0 before the first.
    pub change: u64,
    /// The attempt's secret.
    pub nonce: u64,
    /// Whose it is.
    pub info: HolderInfo,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    pub info: HolderInfo,
}

/// A client with waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// When it last asked.
    pub last_us: u64,
    /// How many of its attempts wait.
    pub waiting: u32,
}

/// The highest finished attempt of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tombstone {
    /// Whose.
    pub client: ClientId,
    /// This attempt and any before are over.
    pub attempt: u64,
    /// When that may be forgotten.
    pub until_us: u64,
    /// An operator has ended this attempt's hold at once, and its next renewal says so.
    pub revoked: bool,
}

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastHold {
    /// Which attempt.
    pub id: HolderId,
    /// How much of the capacity it took.
    pub weight: u32,
    /// That capacity.
    pub capacity: u32,
    /// Its token.
    pub token_us: u64,
    /// When it was granted.
    pub since_us: u64,
    /// When it ended.
    pub ended_us: u64,
    /// How it ended.
    pub ending: Ending,
    /// Whose it was.
    pub info: HolderInfo,
}

/// The search for expired holds. It looks at a bounded number per step, so it keeps its position
/// for the next step. It also keeps a lower bound of all deadlines, so most steps need not look at
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// The next hold to look at.
    pub cursor: usize,
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
    /// A hold ends at `deadline_us`, maybe earlier than was known.
    pub(super) fn expect(&mut self, slot: usize, deadline_us: u64) {
        self.bound_us = self.bound_us.min(deadline_us);
        if slot < self.cursor {
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

    /// What is remembered of the hold in a record of this capacity, when its end is noticed. An end
    /// by time is dated to the deadline, however late a step notices it.
    pub(super) fn ended(&self, capacity: u32, now_us: u64, ending: Ending) -> LastHold {
        let ending = match (self.state, ending) {
            (HoldState::Revoked, _) => Ending::Revoked,
            (HoldState::Unclaimed, Ending::Expired) => Ending::Unclaimed,
            (_, ending) => ending,
        };
        LastHold {
            id: self.id,
            weight: self.weight,
            capacity,
            token_us: self.token_us,
            since_us: self.since_us,
            ended_us: self.deadline_us.min(now_us),
            ending,
            info: self.info.clone(),
        }
    }
}

impl LastHold {
    /// This one, or another one that has ended later; not one that has ended in the future, because
    /// the store's clock went back since then.
    pub(super) fn or_later(self, other: Option<Self>, now_us: u64) -> Self {
        match other {
            Some(other) if self.ended_us < other.ended_us && other.ended_us <= now_us => other,
            _ => self,
        }
    }

    /// As it is seen at a time.
    pub fn at(&self, now_us: u64) -> LastHolder {
        let between = |from: u64, to: u64| Duration::from_micros(to.saturating_sub(from));
        let (mode, token) = (Mode::of(self.weight, self.capacity), self.token_us);
        LastHolder::new(self.id, mode, FencingToken::from_micros(token), self.ending)
            .with_info(self.info.clone())
            .with_held_for(between(self.since_us, self.ended_us))
            .with_ended_ago(between(self.ended_us, now_us))
            .as_passed_on()
    }

    /// Whether a step can have made it.
    pub fn is_sound(&self) -> bool {
        let times = [self.token_us, self.since_us, self.ended_us];
        times.iter().all(|us| *us <= NEVER_US) && self.capacity <= LOCK_CAPACITY
    }
}
