//! Cancel: removes a waiter, whether it still waits or was granted a moment ago.

use super::step::Step;
use crate::holder::{HoldState, HolderId};
use crate::request::{Cancelled, Reply};

impl Step<'_> {
    pub(super) fn cancel(&mut self, id: HolderId, unanswered: bool) -> Reply {
        self.sweep();
        let cancelled = self.leave_or_release(id);
        // The acquire of an unknown attempt may be on its way, and must find the tombstone.
        if unanswered || cancelled == Cancelled::Unknown {
            self.add_tombstone(id);
        }
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Cancelled(cancelled)
    }

    fn leave_or_release(&mut self, id: HolderId) -> Cancelled {
        if let Some(sequence) = self.record.waiting_of(id) {
            self.record.leave(sequence);
            return Cancelled::Removed;
        }
        match self.live_hold(id) {
            Some((slot, state)) if state != HoldState::Cooldown => {
                self.record.remove_hold(slot);
                Cancelled::Released
            }
            Some(_) | None => Cancelled::Unknown,
        }
    }
}
