//! Describe: a holder changes what it says of itself. Everything else stays as it is.

use super::step::Step;
use crate::holder::{HoldState, HolderId, HolderInfo};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn describe(&mut self, id: HolderId, info: &HolderInfo) -> Reply {
        self.sweep();
        let reply = match self.live_hold(id) {
            None => Reply::NotHeld { newest: self.newest() },
            Some((slot, state)) => match state {
                HoldState::Claimed | HoldState::Unclaimed => {
                    let hold = &mut self.record.holds[slot];
                    // Not by a late copy of what one said who has passed it on since.
                    if info.passed_on().times >= hold.info.passed_on().times {
                        hold.info = info.clone();
                    }
                    self.keep_until(self.now_us());
                    Reply::Granted(self.unchanged(slot))
                }
                HoldState::Cooldown => Reply::NotHeld { newest: self.newest() },
                HoldState::Revoked => Reply::Revoked(true),
            },
        };
        self.promote(None);
        reply
    }
}
