//! Describe: changes the facts about a holder. Everything else stays as it is.

use super::step::Step;
use crate::holder::{HolderId, HolderInfo};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn describe(&mut self, id: HolderId, info: &HolderInfo) -> Reply {
        self.sweep();
        let reply = match self.usable_hold(id) {
            Ok(slot) => {
                let hold = &mut self.record.holds[slot];
                // A late request of a caller that has passed the lease on changes nothing.
                if info.passed_on().times >= hold.info.passed_on().times {
                    hold.info = info.clone();
                }
                self.keep_until(self.now_us());
                Reply::Granted(self.unchanged(slot))
            }
            Err(reply) => reply,
        };
        self.promote(None);
        reply
    }
}
