//! Describe: a holder changes what it says of itself. Everything else stays as it is.

use super::Step;
use crate::holder::{Facts, HoldState, HolderId};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn describe(&mut self, id: HolderId, facts: &Facts) -> Reply {
        self.sweep();
        let reply = match self.live_hold(id) {
            None => Reply::NotHeld { newest: self.newest() },
            Some(index) => match self.record.holds[index].state {
                HoldState::Claimed | HoldState::Unclaimed => {
                    self.record.holds[index].facts = facts.clone();
                    self.keep_until(self.now_us());
                    Reply::Granted(self.unchanged(index))
                }
                HoldState::Kept => Reply::NotHeld { newest: self.newest() },
                HoldState::Revoked => Reply::Revoked(true),
            },
        };
        self.promote(None);
        reply
    }
}
