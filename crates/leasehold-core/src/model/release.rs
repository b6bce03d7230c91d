//! Release: ends a hold and hands the lock on in the same step.

use std::time::Duration;

use super::step::Step;
use super::table::{Holds as _, Tables};
use crate::holder::{HoldState, HolderId};
use crate::request::Reply;
use crate::time::micros;

impl<T: Tables> Step<'_, T> {
    pub(super) fn release(&mut self, id: HolderId, keep: Duration, unanswered: bool) -> Reply {
        self.sweep();
        let Some((slot, state)) = self.live_hold(id) else {
            if unanswered {
                self.add_tombstone(id);
            }
            self.promote(None);
            return Reply::NotHeld { newest: self.newest() };
        };
        if state == HoldState::Kept {
            return Reply::Released;
        }
        if keep.is_zero() {
            self.record.remove_hold(slot);
        } else {
            self.keep_hold(slot, keep);
        }
        if unanswered {
            self.add_tombstone(id);
        }
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Released
    }

    /// The name stays taken, by nobody.
    fn keep_hold(&mut self, slot: u32, keep: Duration) {
        let deadline_us = self.now_us() + micros(keep);
        let hold = self.record.holds.at(slot);
        let id = hold.id;
        hold.state = HoldState::Kept;
        hold.ttl_us = micros(keep);
        hold.deadline_us = deadline_us;
        let sweep = &mut self.record.sweep;
        sweep.longest_ttl_us = sweep.longest_ttl_us.max(micros(keep));
        sweep.expect(slot, deadline_us);
        if self.record.upgrading == Some(id) {
            self.record.upgrading = None;
        }
        self.keep_until(deadline_us);
    }
}
