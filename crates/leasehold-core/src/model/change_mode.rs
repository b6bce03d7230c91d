//! Change of mode: a reader becomes the writer once it is alone, a writer becomes a reader at once.

use super::{POLL_INTERVAL, Step};
use crate::holder::{HoldState, HolderId, LOCK_CAPACITY, Mode};
use crate::request::{Grant, Refusal, Reply};
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn change_mode(&mut self, id: HolderId, mode: Mode) -> Reply {
        self.sweep();
        let live = self.live_hold(id).filter(|&index| {
            matches!(self.record.holds[index].state, HoldState::Claimed | HoldState::Unclaimed)
        });
        let Some(index) = live else {
            self.promote(None);
            return Reply::NotHeld { newest: self.newest() };
        };
        if self.record.capacity != LOCK_CAPACITY {
            return Reply::Refused(Refusal::Mismatch { capacity: self.record.capacity });
        }
        match mode {
            Mode::Exclusive => self.upgrade(index, id),
            Mode::Shared => self.downgrade(index, id),
            Mode::Permits { .. } => Reply::Refused(Refusal::Weight),
        }
    }

    fn upgrade(&mut self, index: usize, id: HolderId) -> Reply {
        if self.record.holds[index].weight == LOCK_CAPACITY {
            return Reply::Granted(self.unchanged(index));
        }
        match self.record.upgrading {
            Some(other) if other != id => Reply::WouldDeadlock,
            Some(_) | None if self.record.holds.len() == 1 => {
                self.become_writer(index);
                self.keep_until(self.now_us());
                Reply::Granted(self.unchanged(index))
            }
            Some(_) | None => {
                // From now on nobody is admitted, or a stream of readers would starve it.
                self.record.upgrading = Some(id);
                Reply::Busy { retry_after: self.time_left().min(POLL_INTERVAL) }
            }
        }
    }

    fn downgrade(&mut self, index: usize, id: HolderId) -> Reply {
        if self.record.upgrading == Some(id) {
            self.record.upgrading = None;
        }
        self.record.holds[index].weight = 1;
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Granted(self.unchanged(index))
    }

    /// The hold as it is: a change of mode or of facts moves no deadline.
    pub(super) fn unchanged(&self, index: usize) -> Grant {
        let hold = &self.record.holds[index];
        Grant {
            token: FencingToken::at_us(hold.token_us),
            deadline_us: hold.deadline_us,
            contended: !self.record.queue.is_empty(),
        }
    }
}
