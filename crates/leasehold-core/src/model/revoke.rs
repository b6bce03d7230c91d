//! Revoke: an operator ends the hold of one attempt, or the cooldown after it.

use super::Step;
use super::record::{Gate, State};
use crate::holder::HolderId;
use crate::request::{Message, Reply};

impl Step<'_> {
    pub(super) fn revoke(&mut self, id: HolderId, force: bool) -> Reply {
        let now_ms = self.now_ms();
        if let Some(Gate { state: State::Cooling { until_ms, by }, .. }) = &mut self.record.gate
            && *until_ms > now_ms
            && by.take_if(|by| by.id == id).is_some()
        {
            *until_ms = now_ms;
            self.serve(None);
            return Reply::Ended(true);
        }
        let held = self.record.is_held_by(id);
        let share_until_ms = self.record.shares.get(&id).map(|share| share.deadline_ms);
        if !held && share_until_ms.is_none() {
            return Reply::Ended(false);
        }
        let message = Message::Revoked { attempt: id.attempt, forced: force };
        self.messages.push((id.client, message));
        match force {
            true => {
                if held {
                    self.record.gate = None;
                }
                self.record.shares.remove(&id);
                self.close(id);
                self.end_shares();
                self.serve(None);
            }
            false if held => self.stop(),
            false => {
                self.close(id);
                // A share that may go on is not renewed any more.
                self.record.close(id, share_until_ms.unwrap_or_default());
            }
        }
        Reply::Ended(true)
    }

    /// The holder may go on until its deadline, which does not move any more.
    fn stop(&mut self) {
        self.expect_waiters();
        if let (Some(hold), Some(gate)) = (self.record.hold().cloned(), &mut self.record.gate) {
            gate.state = State::Revoked(hold);
        }
    }
}
