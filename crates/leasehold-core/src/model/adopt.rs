//! Adopt: the hold of a lease that was handed out becomes that of the first adopter.

use super::step::Step;
use crate::holder::{Ending, HoldState};
use crate::request::{Adopt, Refusal, Reply};

impl Step<'_> {
    pub(super) fn adopt(&mut self, request: &Adopt) -> Reply {
        if self.now_us() > request.not_after_us {
            return Reply::Late;
        }
        self.sweep();
        let reply = match self.live_hold(request.id) {
            Some((slot, state)) => self.adopt_again(slot, state, request),
            None => self.take_over(request),
        };
        self.promote(None);
        reply
    }

    /// A copy of an adoption that was done: the same grant again.
    fn adopt_again(&mut self, slot: usize, state: HoldState, request: &Adopt) -> Reply {
        match state {
            HoldState::Claimed | HoldState::Unclaimed => {
                Reply::Granted(self.confirm(slot, request.ttl))
            }
            HoldState::Cooldown => Reply::NotHeld { newest: self.newest() },
            HoldState::Revoked => Reply::Revoked(true),
        }
    }

    fn take_over(&mut self, request: &Adopt) -> Reply {
        let is_known = self.record.waiting_of(request.id).is_some();
        if is_known || self.record.is_finished(request.id, self.now_us()) {
            return Reply::Stale;
        }
        let Some((slot, state)) = self.handed_out(request) else {
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
        self.change_hands(slot, request);
        Reply::Granted(self.confirm(slot, request.ttl))
    }

    /// The hold of the lease, as it was when it was handed out.
    fn handed_out(&mut self, request: &Adopt) -> Option<(usize, HoldState)> {
        let (slot, state) = self.live_hold(request.from)?;
        let is_same_kind = self.record.is_same_kind(request.mode.capacity());
        let hold = &mut self.record.holds[slot];
        // The capacity may have been set since it was handed out.
        let is_same = hold.weight == request.mode.weight() && is_same_kind;
        // The node of a quorum may have granted it with another token.
        let has_token = request.token.is_none_or(|token| token.micros() == hold.token_us);
        (state != HoldState::Cooldown && is_same && has_token).then_some((slot, state))
    }

    /// From now on the hold is another attempt's, and nothing that is sent in the name of the one
    /// before touches it: its renewals find a newer token, and copies of its acquire a tombstone.
    fn change_hands(&mut self, slot: usize, request: &Adopt) {
        let before = request.from;
        if self.record.upgrading == Some(before) {
            self.record.upgrading = None;
        }
        self.note_end(slot, Ending::Adopted);
        let (token_us, since_us) = (self.mint(request.ballot_us), self.now_us());
        self.record.set_id(slot, request.id);
        let hold = &mut self.record.holds[slot];
        hold.change = 0;
        hold.token_us = token_us;
        hold.since_us = since_us;
        hold.nonce = request.nonce;
        hold.info = request.info.clone();
        self.add_tombstone(before);
    }
}
