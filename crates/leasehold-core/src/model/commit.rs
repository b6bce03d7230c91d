//! Commit: the nodes of a quorum come to one token, the highest that any of them has granted.
//!
//! Without it, a quorum that took the highest of its nodes' own tokens would give out a lower one
//! later: last tokens 5, 10 and 4; one caller is granted 6 and 11 by the first two and uses 11; the
//! next is granted 7 and 5 by the first and the third and uses 7.

use std::time::Duration;

use super::step::Step;
use crate::holder::HolderId;
use crate::request::{Refusal, Reply};
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn commit(&mut self, id: HolderId, token: FencingToken, ttl: Duration) -> Reply {
        self.sweep();
        let reply = match self.usable_hold(id) {
            Ok(_) if self.is_too_far_ahead(token.micros()) => Reply::Refused(Refusal::Ballot),
            Ok(slot) => {
                self.raise_token(slot, token.micros());
                Reply::Granted(self.confirm(slot, ttl))
            }
            Err(reply) => reply,
        };
        self.promote(None);
        reply
    }
}
