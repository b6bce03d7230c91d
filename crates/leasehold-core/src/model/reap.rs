//! Reap: all that a dead client holds or waits for ends.

use super::step::Step;
use super::table::{Holds as _, Table as _, Tables};
use crate::holder::{ClientId, Ending, HoldState, HolderId};

impl<T: Tables> Step<'_, T> {
    pub(super) fn reap(&mut self, client: ClientId) {
        let first = HolderId { client, attempt: 0 };
        let mut from = Some(first);
        while let Some(id) = from.and_then(|from| self.record.slots.next(from))
            && id.client == client
        {
            if let Some(slot) = self.record.hold_of(id)
                && self.record.holds.at(slot).state != HoldState::Cooldown
            {
                self.end_hold(slot, Ending::Died);
            }
            from = id.attempt.checked_add(1).map(|attempt| HolderId { client, attempt });
        }
        while let Some(id) = self.record.sequences.next(first)
            && id.client == client
            && let Some(sequence) = self.record.waiting_of(id)
            && self.record.leave(sequence).is_some()
        {}
        self.keep_until(self.now_us());
        self.promote(None);
    }
}
