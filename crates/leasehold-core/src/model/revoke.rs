//! Revoke: an operator ends the hold that was seen, and no other.
//!
//! Inside its process a lease goes from hand to hand, and the store learns that later: see
//! [`super::describe`] and [`crate::PassedOn`]. So the token of the hold counts, which is that of
//! the holder the store knows. A higher token below the next grant counts, too: the store does not
//! know its owner yet. A lower token is that of a caller who has let go.

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
            // Otherwise the reader would still become the writer, with a token that the operator
            // has not seen, and would keep other readers out.
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
