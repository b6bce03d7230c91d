//! The leases, waiters and cleanups of a keeper, and when each is due. Plain data behind one mutex;
//! no I/O, no callbacks.

mod due_queue;
mod leases;
mod waiters;

use leasehold_core::backoff::Jitter;
use leasehold_core::{Action, Instant, LockName, StoreError};

pub(crate) use self::leases::{DueLeases, Leases};
pub(crate) use self::waiters::{Poll, Polling, Turn, Waiter, Waiters};
use super::recently_ended::RecentlyEnded;

/// Something that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    pub(crate) name: LockName,
    pub(crate) action: Action,
    /// From then on it does not matter any more: time has done it.
    pub(crate) until: Instant,
    /// What is published of the name, once it is done.
    pub(crate) notice: Option<String>,
}

/// The work that is due now.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) cleanups: Vec<Cleanup>,
    pub(crate) leases: DueLeases,
    pub(crate) polls: Vec<Poll>,
}

/// Everything that one keeper looks after. A waiter that is granted is given an `L`.
#[derive(Debug)]
pub(crate) struct Table<L> {
    pub(crate) leases: Leases,
    pub(crate) waiters: Waiters<L>,
    cleanups: Vec<Cleanup>,
    /// Cleanups that are queued or under way.
    pub(crate) unfinished: usize,
    /// Why a cleanup was given up, for the caller of `close`.
    pub(crate) given_up: Option<StoreError>,
    pub(crate) ended: RecentlyEnded,
    /// A task drives the keeper.
    pub(crate) running: bool,
    pub(crate) closed: bool,
    pub(crate) wants_inbox: bool,
    /// When the keeper will wake next by itself.
    pub(crate) planned: Instant,
    jitter: Jitter,
}

impl<L> Table<L> {
    pub(crate) fn new(seed: u64) -> Self {
        let mut jitter = Jitter::new(seed);
        Self {
            leases: Leases::new(jitter.next_u64()),
            waiters: Waiters::new(jitter.next_u64()),
            cleanups: Vec::new(),
            unfinished: 0,
            given_up: None,
            ended: RecentlyEnded::default(),
            running: false,
            closed: false,
            wants_inbox: false,
            planned: Instant::default(),
            jitter,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.waiters.is_empty() && self.unfinished == 0
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.leases.next_due().into_iter().chain(self.waiters.next_due()).min()
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.jitter.next_u64()
    }

    /// Takes out all that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Due {
        Due {
            cleanups: std::mem::take(&mut self.cleanups),
            leases: self.leases.take_due(now),
            polls: self.waiters.take_due(now),
        }
    }

    pub(crate) fn add_cleanup(&mut self, cleanup: Cleanup) {
        self.unfinished += 1;
        self.cleanups.push(cleanup);
    }
}

#[cfg(test)]
mod tests;
