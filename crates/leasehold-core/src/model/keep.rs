//! Keep: a lease lives longer, a grant that was handed over is claimed, a hold is described.
//!
//! A description raises the token of the hold. By this, a majority of the nodes of a quorum agrees
//! on one token, the highest that any of these nodes has granted. Without it, a quorum that used
//! the highest of its nodes' own tokens could grant a lower token later. For example, the counters
//! are 5, 10 and 4. The first two nodes grant one caller 6 and 11, and this caller uses 11. Then
//! the first and the third node grant the next caller 7 and 5, and the next caller uses 7.

use super::Step;
use super::record::{Gate, State};
use super::take::millis;
use crate::bugs::{self, Bug};
use crate::holder::HolderId;
use crate::request::{Keep, Refusal, Reply};

impl Step<'_> {
    pub(super) fn keep(&mut self, keep: &Keep) -> Reply {
        let (id, ttl_ms) = (keep.request.id, millis(keep.ttl));
        if !self.record.is_held_by(id) {
            return self.keep_share(id, ttl_ms);
        }
        if self.left_ms() == 0 && !bugs::is_on(Bug::LateRenewalRevives) {
            return Reply::NotHeld;
        }
        if self.record.is_revoked() {
            return Reply::Revoked;
        }
        if let Some(description) = &keep.description {
            let token_us = description.token.micros();
            if self.is_too_far_ahead(Some(token_us)) {
                return Reply::Refused(Refusal::Ballot);
            }
            let Some(hold) = self.record.hold_mut() else { return Reply::NotHeld };
            hold.token = hold.token.max(Some(token_us));
            // A late request of a caller that has passed the lease on changes nothing.
            if description.info.passed_on().times >= hold.info.passed_on().times {
                hold.info = (*description.info).clone();
            }
            *self.counter = (*self.counter).max(token_us);
        }
        self.extend(ttl_ms);
        let is_alone = matches!(self.record.gate, Some(Gate { state: State::Held(_), .. }));
        Reply::Kept { contended: !is_alone }
    }

    /// Moves the end of an exclusive hold. It never comes earlier: its holder may rely on it.
    pub(super) fn extend(&mut self, ttl_ms: u64) {
        let (now_ms, grace_ms) = (self.now_ms(), self.rules.times.grace_ms);
        let Some(Gate { state, until_ms }) = &mut self.record.gate else { return };
        let grace_ms = if matches!(state, State::Held(_)) { 0 } else { grace_ms };
        *until_ms = (*until_ms).max(now_ms + ttl_ms + grace_ms);
    }

    /// Keeps a shared hold that lives, and the gate with it.
    pub(super) fn keep_share(&mut self, id: HolderId, ttl_ms: u64) -> Reply {
        let (now_ms, grace_ms) = (self.now_ms(), self.rules.times.grace_ms);
        let contended = !self.record.queue.is_empty();
        let is_closed = self.record.closed.contains(&id);
        let Some(share) = self.record.shares.get_mut(&id) else {
            // It was ended by force, perhaps.
            return if is_closed { Reply::Revoked } else { Reply::NotHeld };
        };
        if share.deadline_ms < now_ms {
            return Reply::NotHeld;
        }
        if is_closed {
            return Reply::Revoked;
        }
        share.deadline_ms = share.deadline_ms.max(now_ms + ttl_ms);
        if let Some(gate) = &mut self.record.gate {
            gate.until_ms = gate.until_ms.max(now_ms + ttl_ms + grace_ms);
        }
        Reply::Kept { contended }
    }
}
