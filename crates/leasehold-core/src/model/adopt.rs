//! Adopt: the first adopter takes over the hold of a lease that was handed out.

use super::step::Step;
use crate::holder::HoldState;
use crate::request::{Acquire, Adopt, Refusal, Reply};

impl Step<'_> {
    pub(super) fn adopt(&mut self, adopt: &Adopt) -> Reply {
        let Acquire { id, ttl, not_after_us, .. } = *adopt.request;
        if self.now_us() > not_after_us {
            return Reply::Late;
        }
        self.sweep();
        let is_copy = self.live_hold(id).is_some();
        let reply = match self.usable_hold(id) {
            // This is a copy of an adoption that was done: the same grant again.
            Ok(slot) => Reply::Granted(self.confirm(slot, ttl)),
            Err(reply) if is_copy => reply,
            Err(_) => self.take_over(adopt),
        };
        self.promote(None);
        reply
    }

    fn take_over(&mut self, adopt: &Adopt) -> Reply {
        let request = &adopt.request;
        let is_known = self.record.waiting_of(request.id).is_some();
        if is_known || self.record.is_finished(request.id, self.now_us()) {
            return Reply::Stale;
        }
        let Some((slot, state)) = self.handed_out(adopt) else {
            return Reply::NotHeld { newest: self.newest() };
        };
        if state == HoldState::Revoked {
            return Reply::Revoked(true);
        }
        if request.ballot_us.is_some_and(|ballot_us| self.is_too_far_ahead(ballot_us)) {
            return Reply::Refused(Refusal::Ballot);
        }
        if self.rules.gives_nothing_new() {
            return Reply::Busy { retry_after: self.time_left() };
        }
        self.change_hands(slot, adopt);
        Reply::Granted(self.confirm(slot, request.ttl))
    }

    /// The hold of the lease, as it was when it was handed out.
    fn handed_out(&mut self, adopt: &Adopt) -> Option<(usize, HoldState)> {
        let (slot, state) = self.live_hold(adopt.from)?;
        let hold = &self.record.holds[slot];
        let is_same = hold.mode(self.record.capacity) == adopt.request.mode;
        // A node of a quorum may have granted the lease with another token.
        let has_token = adopt.token.is_none_or(|token| token.micros() == hold.token_us);
        (state != HoldState::Cooldown && is_same && has_token).then_some((slot, state))
    }

    /// Gives the hold to another attempt. Requests of the former attempt no longer affect the hold:
    /// renewals of that attempt find a newer token, and copies of its acquire find a tombstone.
    fn change_hands(&mut self, slot: usize, adopt: &Adopt) {
        let (before, request) = (adopt.from, &adopt.request);
        let (token_us, since_us) = (self.mint(request.ballot_us), self.now_us());
        self.record.set_id(slot, request.id);
        let hold = &mut self.record.holds[slot];
        hold.token_us = token_us;
        hold.since_us = since_us;
        hold.nonce = request.nonce;
        hold.info = request.info.clone();
        self.add_tombstone(before);
    }
}
