//! Reap: ends all holds and places of a dead client.

use super::step::Step;
use crate::holder::{ClientId, HoldState, HolderId};

impl Step<'_> {
    pub(super) fn reap(&mut self, client: ClientId) {
        let first = HolderId { client, attempt: 0 };
        let last = HolderId { client, attempt: u64::MAX };
        let held: Vec<_> = self.record.slots.range(first..=last).map(|(id, _)| *id).collect();
        for id in held {
            if let Some(slot) = self.record.hold_of(id)
                && self.record.holds[slot].state != HoldState::Cooldown
            {
                self.record.remove_hold(slot);
            }
        }
        let awaited = self.record.sequences.range(first..=last).map(|(_, sequence)| *sequence);
        for sequence in awaited.collect::<Vec<_>>() {
            self.record.leave(sequence);
        }
        self.keep_until(self.now_us());
        self.promote(None);
    }
}
