//! Change of mode. A reader becomes the writer once it is alone; an upgradable reader does so
//! before any other. A writer, or an upgradable reader, becomes a plain reader immediately.
//!
//! Changes are ordered by the numbers that their holder gives them. A late change is refused, and
//! each renewal compares the mode that the holder assumes with the record.

use super::limits::POLL_INTERVAL;
use super::step::Step;
use crate::holder::{HoldState, HolderId, LOCK_CAPACITY, Mode, UPGRADABLE_WEIGHT};
use crate::request::{Refusal, Reply};

impl Step<'_> {
    pub(super) fn change_mode(&mut self, id: HolderId, mode: Mode, change: u64) -> Reply {
        self.sweep();
        let is_usable = |state| matches!(state, HoldState::Claimed | HoldState::Unclaimed);
        let Some((slot, _)) = self.live_hold(id).filter(|(_, state)| is_usable(*state)) else {
            self.promote(None);
            return Reply::NotHeld { newest: self.newest() };
        };
        if self.record.capacity != LOCK_CAPACITY {
            return Reply::Refused(Refusal::Mismatch { capacity: self.record.capacity });
        }
        let hold = &mut self.record.holds[slot];
        if change < hold.change {
            return Reply::Stale;
        }
        let weight = hold.weight;
        match mode {
            Mode::Exclusive => self.upgrade(slot, change),
            Mode::Shared | Mode::Upgradable if mode.weight() <= weight => {
                self.downgrade(slot, mode.weight(), change)
            }
            Mode::Permits { .. } | Mode::Shared | Mode::Upgradable => {
                Reply::Refused(Refusal::Weight)
            }
        }
    }

    fn upgrade(&mut self, slot: usize, change: u64) -> Reply {
        let hold = &mut self.record.holds[slot];
        let (id, is_writer, is_new) = (hold.id, hold.weight == LOCK_CAPACITY, change > hold.change);
        let is_beside_upgradable = self.is_beside_upgradable(slot);
        match self.record.upgrading {
            None if !is_writer && !is_new => return Reply::Stale, // the change was taken back
            Some(other) if other != id => return Reply::WouldDeadlock,
            // If this reader waited, the two would wait for each other as soon as the upgradable
            // reader wants to write.
            Some(_) | None if is_beside_upgradable => return Reply::WouldDeadlock,
            Some(_) | None => self.record.holds[slot].change = change,
        }
        if is_writer {
            return Reply::Granted(self.unchanged(slot));
        }
        if self.record.holds.len() > 1 || self.rules.gives_nothing_new() {
            // From now on nobody is admitted, because otherwise a stream of readers would starve
            // the upgrade.
            self.record.upgrading = Some(id);
            return Reply::Busy { retry_after: self.time_left().min(POLL_INTERVAL) };
        }
        self.become_writer(slot);
        self.keep_until(self.now_us());
        Reply::Granted(self.unchanged(slot))
    }

    /// Whether the hold is a plain reader's, while an upgradable reader holds, too.
    fn is_beside_upgradable(&mut self, slot: usize) -> bool {
        self.record.holds[slot].weight < UPGRADABLE_WEIGHT
            && self.record.used >= u64::from(UPGRADABLE_WEIGHT)
    }

    fn downgrade(&mut self, slot: usize, weight: u32, change: u64) -> Reply {
        self.become_reader(slot, weight, change);
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Granted(self.unchanged(slot))
    }

    fn become_reader(&mut self, slot: usize, weight: u32, change: u64) {
        self.record.set_weight(slot, weight);
        let hold = &mut self.record.holds[slot];
        hold.change = change;
        if self.record.upgrading == Some(hold.id) {
            self.record.upgrading = None;
        }
    }

    /// Compares a hold with the mode that its holder assumes, and the number of that mode's change.
    /// If the holder assumes a weaker mode, the hold gets that mode. Returns false if the holder
    /// assumes a stronger mode.
    pub(super) fn agree(&mut self, slot: usize, (mode, change): (Mode, u64)) -> bool {
        let (hold, weight) = (&mut self.record.holds[slot], mode.weight());
        if change < hold.change {
            return true; // the request is a late copy
        }
        let is_reader = weight == 1 || weight == UPGRADABLE_WEIGHT;
        if self.record.capacity == LOCK_CAPACITY && is_reader && weight <= hold.weight {
            self.become_reader(slot, weight, change);
            return true;
        }
        let agrees = hold.weight == weight;
        if agrees {
            hold.change = change;
        }
        agrees
    }
}
