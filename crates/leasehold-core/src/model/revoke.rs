//! Revoke: an operator ends the hold that he saw, and no other.
//!
//! Inside its process a lease goes from hand to hand, and the store is told later: see
//! [`super::describe`] and [`crate::PassedOn`]. So the token of whoever has it by what was told is
//! that of the hold. So is a higher one below the next grant, whose owner the store has not been
//! told of yet. A lower one is that of somebody who has let go.

use super::step::Step;
use crate::holder::{Ending, HoldState, HolderId};
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
        // A cooldown is held by nobody, so nobody has to be asked.
        let forced = force || is_cooldown;
        if forced {
            self.take_away(slot, Ending::Revoked);
        } else {
            self.record.holds[slot].state = HoldState::Revoked;
            // Else the reader would become the writer all the same, with a token that the
            // operator has not seen, and readers would be kept out for it.
            if self.record.upgrading == Some(id) {
                self.record.upgrading = None;
            }
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
