//! Revoke: an operator ends the hold that the operator has seen, and no other.
//!
//! A lease may be passed on inside a process, and the store learns of that later: see
//! [`super::describe`] and [`crate::PassedOn`]. So the token of the recorded holder is accepted. A
//! higher token below the next grant is accepted, too, because its holder may not be recorded yet.
//! A lower token belongs to a former holder.

use super::step::Step;
use crate::holder::{HoldState, HolderId};
use crate::request::{Message, Reply};
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn revoke(&mut self, id: HolderId, token: FencingToken, force: bool) -> Reply {
        self.sweep();
        let seen = self.live_hold(id).filter(|(slot, _)| {
            let hold = &self.record.holds[*slot];
            FencingToken::from_micros(hold.token_us).micros() == token.micros()
                && token.passes() >= hold.info.passed_on().times
        });
        let Some((slot, state)) = seen else {
            self.promote(None);
            return Reply::Revoked(false);
        };
        let is_cooldown = state == HoldState::Cooldown;
        let nonce = self.record.holds[slot].nonce;
        // Nobody holds a cooldown, so nobody has to be asked to stop.
        let forced = force || is_cooldown;
        if forced {
            let deadline_us = self.record.holds[slot].deadline_us;
            self.record.remove_hold(slot);
            // Until the deadline, the holder may ask for the state of its hold.
            self.bury(id, deadline_us, true);
        } else {
            self.record.holds[slot].state = HoldState::Revoked;
        }
        if !is_cooldown {
            let message = Message::Revoked { attempt: id.attempt, nonce, token, forced };
            self.messages.push((id.client, message));
        }
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Revoked(true)
    }
}
