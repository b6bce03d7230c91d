//! Change of mode: a reader becomes the writer once it is alone, a writer becomes a reader at once,
//! and an upgradable reader, which becomes the writer before any other, a reader like others.
//!
//! Changes are ordered by the numbers that their holder gives them. What arrives late is refused,
//! and what a holder believes is compared at each renewal.

use super::{POLL_INTERVAL, Step};
use crate::holder::{HoldState, HolderId, LOCK_CAPACITY, Mode, UPGRADABLE_WEIGHT};
use crate::request::{Grant, Refusal, Reply};
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn change_mode(&mut self, id: HolderId, mode: Mode, change: u64) -> Reply {
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
        if change < self.record.holds[index].change {
            return Reply::Stale;
        }
        match mode {
            Mode::Exclusive => self.upgrade(index, change),
            Mode::Shared | Mode::Upgradable if mode.weight() <= self.record.holds[index].weight => {
                self.downgrade(index, mode.weight(), change)
            }
            Mode::Permits { .. } | Mode::Shared | Mode::Upgradable => {
                Reply::Refused(Refusal::Weight)
            }
        }
    }

    fn upgrade(&mut self, index: usize, change: u64) -> Reply {
        let hold = &self.record.holds[index];
        let (id, is_writer, is_new) = (hold.id, hold.weight == LOCK_CAPACITY, change > hold.change);
        match self.record.upgrading {
            None if !is_writer && !is_new => return Reply::Stale, // it was taken back
            Some(other) if other != id => return Reply::WouldDeadlock,
            // If it waited, the two would wait for each other as soon as that one wants to write.
            Some(_) | None if self.is_beside_upgradable(index) => return Reply::WouldDeadlock,
            Some(_) | None => self.record.holds[index].change = change,
        }
        if is_writer {
            return Reply::Granted(self.unchanged(index));
        }
        if self.record.holds.len() > 1 {
            // From now on nobody is admitted, or a stream of readers would starve it.
            self.record.upgrading = Some(id);
            return Reply::Busy { retry_after: self.time_left().min(POLL_INTERVAL) };
        }
        self.become_writer(index);
        self.keep_until(self.now_us());
        Reply::Granted(self.unchanged(index))
    }

    /// Whether it is a reader beside an upgradable one.
    fn is_beside_upgradable(&self, index: usize) -> bool {
        self.record.holds[index].weight < UPGRADABLE_WEIGHT
            && self.record.used() >= u64::from(UPGRADABLE_WEIGHT)
    }

    fn downgrade(&mut self, index: usize, weight: u32, change: u64) -> Reply {
        self.become_reader(index, weight, change);
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Granted(self.unchanged(index))
    }

    fn become_reader(&mut self, index: usize, weight: u32, change: u64) {
        let hold = &mut self.record.holds[index];
        hold.weight = weight;
        hold.change = change;
        if self.record.upgrading == Some(hold.id) {
            self.record.upgrading = None;
        }
    }

    /// Compares a hold with what its holder believes of it, by which change. A holder that believes
    /// less is right from now on; false for one that believes more.
    pub(super) fn agree(&mut self, index: usize, (mode, change): (Mode, u64)) -> bool {
        let (hold, weight) = (&self.record.holds[index], mode.weight());
        if change < hold.change {
            return true; // a late copy
        }
        let is_reader = weight == 1 || weight == UPGRADABLE_WEIGHT;
        if self.record.capacity == LOCK_CAPACITY && is_reader && weight <= hold.weight {
            self.become_reader(index, weight, change);
        } else if hold.weight == weight {
            self.record.holds[index].change = change;
        }
        self.record.holds[index].weight == weight
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
