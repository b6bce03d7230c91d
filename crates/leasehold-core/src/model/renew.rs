//! Renew: moves a deadline on. Never revives, never shortens.

use std::time::Duration;

use super::Step;
use crate::holder::{HoldState, HolderId};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn renew(&mut self, id: HolderId, ttl: Duration) -> Reply {
        self.sweep();
        let reply = match self.live_hold(id) {
            None => Reply::NotHeld { newest: self.newest() },
            Some(index) => match self.record.holds[index].state {
                HoldState::Claimed | HoldState::Unclaimed => {
                    Reply::Granted(self.confirm(index, ttl))
                }
                HoldState::Kept => Reply::NotHeld { newest: self.newest() },
                HoldState::Revoked => Reply::Revoked(true),
            },
        };
        self.promote(None);
        reply
    }
}
