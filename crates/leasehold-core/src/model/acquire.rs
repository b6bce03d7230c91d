//! Acquire: takes the lock, or joins its queue, or replies that it is busy.
//!
//! A semaphore has one capacity at a time. It is the capacity of the first request that came when
//! nobody held or waited. A request for another capacity waits in line like all others. When it is
//! the first in line, it waits until nobody holds; then its capacity is in force. So two capacities
//! are never counted together, and there are never more holders than the capacity that each of them
//! asked for. Nobody overtakes the request, so all earlier holds end, and no request starves.
//!
//! A name is either a lock or a semaphore: while it is in use as one, requests for the other are
//! refused.

use super::limits::{MAX_WAITING, POLL_INTERVAL};
use super::rows::Waiting;
use super::step::Step;
use crate::bugs::{self, Bug};
use crate::holder::HoldState;
use crate::request::{Acquire, Place, Refusal, Reply};
use crate::time::micros;

impl Step<'_> {
    pub(super) fn acquire(&mut self, request: &Acquire) -> Reply {
        if self.now_us() > request.not_after_us {
            return Reply::Late;
        }
        self.retention = self.retention.max(request.remember);
        self.sweep();
        if let Some((slot, state)) = self.live_hold(request.id) {
            return self.acquire_again(slot, state, request);
        }
        if let Some(sequence) = self.record.waiting_of(request.id) {
            return self.wait_on(sequence, request);
        }
        if self.record.is_finished(request.id, self.now_us()) {
            return Reply::Stale;
        }
        let (weight, capacity) = (request.mode.weight(), request.mode.capacity());
        if weight > capacity {
            return Reply::Refused(Refusal::Weight);
        }
        if request.ballot_us.is_some_and(|ballot_us| self.is_too_far_ahead(ballot_us)) {
            return Reply::Refused(Refusal::Ballot);
        }
        self.promote(None);
        if self.record.is_idle() {
            self.record.capacity = capacity;
        }
        let in_force = self.record.capacity;
        if !self.record.is_same_kind(capacity) || capacity != in_force && !request.wait {
            return Reply::Refused(Refusal::Mismatch { capacity: in_force });
        }
        let is_next = self.record.queue.is_empty() || bugs::is_on(Bug::NewcomerBarges);
        if is_next && !self.rules.gives_nothing_new() && self.record.fits(weight, capacity) {
            let token_us = self.mint(request.ballot_us);
            let waiting = asked(request, self.now_us());
            let slot = self.grant(waiting, HoldState::Claimed, token_us, None);
            return Reply::Granted(self.confirm(slot, request.ttl));
        }
        if !request.wait {
            return Reply::Busy { retry_after: self.time_left() };
        }
        if self.record.queue.len() >= MAX_WAITING {
            return Reply::Refused(Refusal::QueueFull);
        }
        let now_us = self.now_us();
        let sequence = self.record.join(asked(request, now_us), now_us);
        self.keep_until(now_us);
        Reply::Queued(self.place(sequence))
    }

    /// The reply to a copy of an acquire that was granted: the same grant again.
    fn acquire_again(&mut self, slot: usize, state: HoldState, request: &Acquire) -> Reply {
        match state {
            HoldState::Claimed | HoldState::Unclaimed => {
                let grant = self.confirm(slot, request.ttl);
                self.promote(None);
                Reply::Granted(grant)
            }
            HoldState::Cooldown | HoldState::Revoked => Reply::Stale,
        }
    }

    /// The reply to a copy of an acquire that waits: the same place. Its client counts as alive.
    fn wait_on(&mut self, sequence: u64, request: &Acquire) -> Reply {
        self.see(request.id.client);
        self.promote(Some(request.id));
        match self.record.hold_of(request.id) {
            Some(slot) => Reply::Granted(self.confirm(slot, request.ttl)),
            None => Reply::Queued(self.place(sequence)),
        }
    }

    /// The place of a waiter, and when it has to ask again: the first waiter when the earliest hold
    /// may end, and the others after a time that depends on their place.
    pub(super) fn place(&mut self, sequence: u64) -> Place {
        let ahead = self.record.ahead_of(sequence);
        let retry_after = match ahead {
            0 => self.time_left().min(POLL_INTERVAL),
            behind => POLL_INTERVAL
                .saturating_mul(behind.saturating_add(1))
                .min(self.rules.longest_silence),
        };
        let in_force = self.record.capacity;
        let asked = self.record.queue.get(&sequence).map(|waiting| waiting.capacity);
        let other_capacity = asked.is_some_and(|asked| asked != in_force).then_some(in_force);
        Place { sequence, ahead, retry_after, other_capacity }
    }
}

/// The row of a waiter, or of a holder, for a request.
pub(super) fn asked(request: &Acquire, now_us: u64) -> Waiting {
    Waiting {
        id: request.id,
        weight: request.mode.weight(),
        capacity: request.mode.capacity(),
        ttl_us: micros(request.ttl),
        since_us: now_us,
        nonce: request.nonce,
        info: request.info.clone(),
    }
}
