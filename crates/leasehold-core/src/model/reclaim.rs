//! Reclaim: a holder takes back, by its token, a hold that the store has forgotten or let run out.

use super::acquire::asked;
use super::step::Step;
use crate::holder::{HoldState, LOCK_CAPACITY, Mode};
use crate::request::{Reclaim, Refusal, Reply};

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
        if let Some(slot) = self.held_to_reclaim(claim) {
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

    /// The attempt's own hold, if it is of the claimed kind, both sides can agree on its mode, and
    /// nobody has ended it.
    fn held_to_reclaim(&mut self, claim: &Reclaim) -> Option<usize> {
        let mode = claim.request.mode;
        let slot = self.record.hold_of(claim.request.id)?;
        let is_ended =
            matches!(self.record.holds[slot].state, HoldState::Cooldown | HoldState::Revoked);
        if is_ended || !self.record.is_same_kind(mode.capacity()) {
            return None;
        }
        let agrees = self.agree(slot, (mode, claim.change));
        (agrees || self.become_writer_again(slot, claim)).then_some(slot)
    }

    /// Makes the hold the writer again, if it is claimed as a writer but is a reader in the record.
    /// Does nothing if somebody else has been granted the name.
    fn become_writer_again(&mut self, slot: usize, claim: &Reclaim) -> bool {
        let is_next = self.record.holds.len() == 1
            && !self.rules.held_back
            && claim.request.mode == Mode::Exclusive
            && self.record.last_token_us <= claim.token.micros();
        if is_next {
            self.record.set_weight(slot, LOCK_CAPACITY);
            self.record.holds[slot].change = claim.change;
            self.record.upgrading = None;
        }
        is_next
    }

    fn reclaim_forgotten(&mut self, claim: &Reclaim) -> Reply {
        let request = &claim.request;
        let not_held = Reply::NotHeld { newest: self.newest() };
        let (weight, capacity) = (request.mode.weight(), request.mode.capacity());
        if weight > capacity {
            return Reply::Refused(Refusal::Weight);
        }
        let is_idle = self.record.is_idle();
        if !is_idle && !self.record.admits(weight, capacity) {
            return Reply::Refused(Refusal::Mismatch { capacity: self.record.capacity });
        }
        let token_us = claim.token.micros();
        let is_overtaken = weight == LOCK_CAPACITY && self.record.last_token_us >= token_us;
        let is_over = self.record.is_finished(request.id, self.now_us());
        let nobody_first = self.record.queue.is_empty() && self.record.upgrading.is_none();
        let fits = nobody_first && (is_idle || self.record.fits(weight, capacity));
        if is_overtaken || is_over || !fits {
            return not_held;
        }
        if self.rules.held_back {
            return Reply::Busy { retry_after: self.time_left() };
        }
        if is_idle {
            self.record.begin_with(capacity);
        }
        self.record.last_token_us = self.record.last_token_us.max(token_us);
        let waiting = asked(request, self.now_us());
        let slot = self.grant(waiting, HoldState::Claimed, token_us, None);
        self.record.holds[slot].change = claim.change;
        Reply::Granted(self.confirm(slot, request.ttl))
    }
}
