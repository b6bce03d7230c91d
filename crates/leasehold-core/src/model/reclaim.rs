//! Reclaim: a holder takes back, by its token, a hold that the store has forgotten or let run out.

use super::acquire::asked;
use super::step::Step;
use crate::holder::{HoldState, LOCK_CAPACITY};
use crate::request::{Acquire, Reclaim, Refusal, Reply};

impl Step<'_> {
    pub(super) fn reclaim(&mut self, claim: &Reclaim) -> Reply {
        let request = &claim.request;
        if self.now_us() > request.not_after_us {
            return Reply::Late;
        }
        if self.is_too_far_ahead(claim.token.micros()) {
            return Reply::Refused(Refusal::Ballot);
        }
        // This comes before anything ends by time: a hold that is still in the record has kept
        // everybody else out.
        if let Some(slot) = self.held_to_reclaim(request) {
            let now_us = self.now_us();
            self.record.holds[slot].clamp(now_us);
            self.raise_token(slot, claim.token.micros());
            let grant = self.confirm(slot, request.ttl);
            self.record.sweep.expect(slot, grant.deadline_us);
            self.sweep();
            self.promote(None);
            return Reply::Granted(grant);
        }
        self.sweep();
        let reply = match self.live_hold(request.id) {
            Some((_, HoldState::Revoked)) => Reply::Revoked(true),
            Some(_) => Reply::NotHeld { newest: self.newest() },
            None => self.reclaim_forgotten(claim),
        };
        self.promote(None);
        reply
    }

    /// The attempt's own hold, if it has the claimed mode, and nobody has ended it.
    fn held_to_reclaim(&self, request: &Acquire) -> Option<usize> {
        let slot = self.record.hold_of(request.id)?;
        let hold = &self.record.holds[slot];
        let is_ended = matches!(hold.state, HoldState::Cooldown | HoldState::Revoked);
        (!is_ended && hold.mode(self.record.capacity) == request.mode).then_some(slot)
    }

    fn reclaim_forgotten(&mut self, claim: &Reclaim) -> Reply {
        let request = &claim.request;
        let not_held = Reply::NotHeld { newest: self.newest() };
        let (weight, capacity) = (request.mode.weight(), request.mode.capacity());
        if weight > capacity {
            return Reply::Refused(Refusal::Weight);
        }
        let is_idle = self.record.is_idle();
        if !is_idle && capacity != self.record.capacity {
            return Reply::Refused(Refusal::Mismatch { capacity: self.record.capacity });
        }
        let token_us = claim.token.micros();
        let is_overtaken = weight == LOCK_CAPACITY && self.record.last_token_us >= token_us;
        let is_over = self.record.is_finished(request.id, self.now_us());
        let nobody_first = self.record.queue.is_empty();
        let fits = nobody_first && (is_idle || self.record.fits(weight, capacity));
        if is_overtaken || is_over || !fits {
            return not_held;
        }
        if self.rules.held_back {
            return Reply::Busy { retry_after: self.time_left() };
        }
        if is_idle {
            self.record.capacity = capacity;
        }
        self.record.last_token_us = self.record.last_token_us.max(token_us);
        let waiting = asked(request, self.now_us());
        let slot = self.grant(waiting, HoldState::Claimed, token_us, None);
        Reply::Granted(self.confirm(slot, request.ttl))
    }
}
