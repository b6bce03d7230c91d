//! Commit: a majority of the nodes of a quorum agrees on one token, the highest that any of these
//! nodes has granted.
//!
//! Without it, a quorum that used the highest of its nodes' own tokens could grant a lower token
//! later. For example, the last tokens are 5, 10 and 4. The first two nodes grant one caller 6 and
//! 11, and this caller uses 11. Then the first and the third node grant the next caller 7 and 5,
//! and the next caller uses 7.

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
