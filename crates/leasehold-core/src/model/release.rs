//! Release: ends a hold and hands the lock on in the same step.

use std::time::Duration;

use super::Step;
use crate::holder::{ClientId, HoldState, HolderId};
use crate::request::Reply;
use crate::time::micros;

impl Step<'_> {
    pub(super) fn release(&mut self, id: HolderId, keep: Duration, unanswered: bool) -> Reply {
        self.sweep();
        let Some(index) = self.live_hold(id) else {
            if unanswered {
                self.bury_attempt(id);
            }
            self.promote(None);
            return Reply::NotHeld { newest: self.newest() };
        };
        if self.record.holds[index].state == HoldState::Kept {
            return Reply::Released;
        }
        if keep.is_zero() {
            self.record.remove_hold(index);
        } else {
            self.keep_hold(index, keep);
        }
        if unanswered {
            self.bury_attempt(id);
        }
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Released
    }

    /// The name stays taken, by nobody.
    fn keep_hold(&mut self, index: usize, keep: Duration) {
        let deadline_us = self.now_us() + micros(keep);
        let hold = &mut self.record.holds[index];
        hold.state = HoldState::Kept;
        hold.ttl_us = micros(keep);
        hold.deadline_us = deadline_us;
        let sweep = &mut self.record.sweep;
        sweep.longest_ttl_us = sweep.longest_ttl_us.max(micros(keep));
        sweep.expect(index, deadline_us);
        if self.record.upgrading == Some(self.record.holds[index].id) {
            self.record.upgrading = None;
        }
        self.keep_until(deadline_us);
    }

    /// Ends all that a dead client holds or waits for.
    pub(super) fn bury(&mut self, client: ClientId) {
        while let Some(index) = self
            .record
            .holds
            .iter()
            .position(|hold| hold.id.client == client && hold.state != HoldState::Kept)
        {
            self.record.remove_hold(index);
        }
        while let Some(sequence) = self
            .record
            .queue
            .iter()
            .find_map(|(sequence, waiting)| (waiting.id.client == client).then_some(*sequence))
        {
            self.record.leave(sequence);
        }
        self.keep_until(self.now_us());
        self.promote(None);
    }
}
