//! The leases, waiters and cleanups of a keeper, and when each is due. Plain data behind one mutex;
//! no I/O, no callbacks.

mod cleanup;
mod due_queue;
mod leases;
mod lines;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Jitter;
use leasehold_core::{HolderId, Instant, LockName, StoreError};

pub(crate) use self::cleanup::Cleanup;
pub(crate) use self::leases::{DueLeases, Leases};
pub(crate) use self::lines::{Begun, Left, Lines, Passed, Wakeup};
pub(crate) use self::waiters::{Ask, Poll, Polling, Turn, Waiter, Waiters};
use super::lease::LeaseState;
use super::recently_ended::RecentlyEnded;
use super::ticket::Ticket;

/// The work that is due now.
#[derive(Debug)]
pub(crate) struct Due<L> {
    pub(crate) cleanups: Vec<Cleanup>,
    pub(crate) leases: DueLeases,
    pub(crate) polls: Vec<Poll>,
    /// Leases that whoever was granted them has not fetched, each with the next in line if there
    /// is one, who has it now.
    pub(crate) unfetched: Vec<(Arc<LeaseState>, Option<Passed<L>>)>,
    pub(crate) wakeups: Vec<Wakeup<L>>,
}

/// What becomes of a lease that its holder lets go of.
#[derive(Debug)]
pub(crate) enum LetGo<L> {
    /// The next in line has it.
    Passed(Passed<L>),
    /// It is the store's again. Somebody in line may have to ask for it.
    Released {
        /// It was kept until now, so its end has to be reported.
        was_kept: bool,
        /// The keeper has to be told of the cleanup.
        rings: bool,
        wakeup: Wakeup<L>,
    },
}

/// Everything that one keeper looks after. A waiter that is granted is given an `L`.
#[derive(Debug)]
pub(crate) struct Table<L> {
    pub(crate) leases: Leases,
    pub(crate) waiters: Waiters<L>,
    pub(crate) lines: Lines<L>,
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
    pub(crate) fn new(seed: u64, slice: Duration) -> Self {
        let mut jitter = Jitter::new(seed);
        Self {
            leases: Leases::new(jitter.next_u64()),
            waiters: Waiters::new(jitter.next_u64()),
            lines: Lines::new(slice),
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
        let dues = [self.leases.next_due(), self.waiters.next_due(), self.lines.next_due()];
        dues.into_iter().flatten().min()
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.jitter.next_u64()
    }

    /// Takes out all that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Due<L> {
        let mut cleanups = std::mem::take(&mut self.cleanups);
        cleanups.extend(self.lines.take_let_go());
        let mut leases = self.leases.take_due(now);
        let mut wakeups = self.lines.take_due(&mut self.waiters, now);
        for (state, _) in &leases.lost {
            wakeups.push(self.lines.lease_ended(&mut self.waiters, state, now, false));
        }
        let mut unfetched = Vec::new();
        for state in std::mem::take(&mut leases.unfetched) {
            let passed = self.lines.pass_on(&mut self.leases, &state, now);
            if passed.is_none() {
                self.leases.remove(&state);
                wakeups.push(self.lines.lease_ended(&mut self.waiters, &state, now, false));
            }
            unfetched.push((state, passed));
        }
        Due { cleanups, leases, polls: self.waiters.take_due(now), unfetched, wakeups }
    }

    // ---- cleanups

    pub(crate) fn add_cleanup(&mut self, cleanup: Cleanup) {
        self.unfinished += 1;
        self.put_back(cleanup);
    }

    /// One that was taken out to be done, and was not.
    pub(crate) fn put_back(&mut self, cleanup: Cleanup) {
        self.cleanups.push(cleanup);
    }

    // ---- lines

    /// Makes a call known: see [`Lines::begin`].
    pub(crate) fn begin(&mut self, waiter: Waiter<L>, waits: bool, now: Instant) -> Begun {
        let begun = self.lines.begin(&mut self.waiters, &mut self.leases, waiter, waits, now);
        if let Begun::TakenOver { .. } = &begun {
            // Its release is not sent.
            self.unfinished -= 1;
        }
        begun
    }

    /// The store does not know an attempt (any more): its line draws another one.
    pub(crate) fn attempt_is_gone(&mut self, name: &LockName, id: HolderId, now: Instant) {
        self.lines.gone(&self.waiters, name, id, now);
    }

    /// A caller gives up its attempt, and keeps its place in line: see [`Lines::withdraw`].
    pub(crate) fn withdraw(
        &mut self,
        name: &LockName,
        ticket: Option<Ticket>,
        id: HolderId,
    ) -> Option<Waiter<L>> {
        self.lines.withdraw(&mut self.waiters, name, ticket, id)
    }

    /// A caller gives up its place: see [`Lines::leave`].
    pub(crate) fn leave(
        &mut self,
        name: &LockName,
        ticket: Option<Ticket>,
        id: HolderId,
        now: Instant,
    ) -> Left<L> {
        self.lines.leave(&mut self.waiters, name, ticket, id, now)
    }

    /// The holder of a lease lets go of it. Where nobody is in line, `cleanup` has the keeper
    /// release it, or somebody who comes before that; without one the caller releases it.
    pub(crate) fn let_go(
        &mut self,
        state: &Arc<LeaseState>,
        cleanup: Option<&dyn Fn() -> Cleanup>,
        now: Instant,
    ) -> LetGo<L> {
        if !self.closed
            && let Some(passed) = self.lines.pass_on(&mut self.leases, state, now)
        {
            return LetGo::Passed(passed);
        }
        self.ended.add(state.id, state.grant_token(), &state.name);
        let renewing = self.leases.remove(state);
        let was_kept = renewing.is_some();
        let mut rings = false;
        if let Some(cleanup) = cleanup {
            self.unfinished += 1;
            let kept = renewing.filter(|_| !self.closed);
            rings = match self.lines.keep_for_next(state, kept, Box::new(cleanup())) {
                Ok(is_new) => is_new,
                Err(cleanup) => {
                    self.put_back(*cleanup);
                    true
                }
            };
        }
        let wakeup = match was_kept {
            true => self.lines.lease_ended(&mut self.waiters, state, now, true),
            false => Wakeup::NONE,
        };
        LetGo::Released { was_kept, rings, wakeup }
    }

    /// A lease is not kept any more; whether it was until now.
    pub(crate) fn forget(&mut self, state: &LeaseState, now: Instant) -> (bool, Wakeup<L>) {
        let was_kept = self.leases.remove(state).is_some();
        let wakeup = if was_kept { self.leave_line(state, now) } else { Wakeup::NONE };
        (was_kept, wakeup)
    }

    /// A lease is not kept for its line any more: the first in line asks for another one.
    pub(crate) fn leave_line(&mut self, state: &LeaseState, now: Instant) -> Wakeup<L> {
        self.lines.lease_ended(&mut self.waiters, state, now, false)
    }
}

#[cfg(test)]
mod tests;
