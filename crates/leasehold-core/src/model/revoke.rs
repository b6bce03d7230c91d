//! Revoke: an operator ends the hold of one attempt.

use super::Step;
use super::record::{Gate, State};
use crate::holder::HolderId;
use crate::request::{Message, Reply};

impl Step<'_> {
    pub(super) fn revoke(&mut self, id: HolderId, force: bool) -> Reply {
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
        let grace_ms = self.rules.times.grace_ms;
        let Some(Gate { state, until_ms }) = &mut self.record.gate else { return };
        match state {
            State::Held(hold) => {
                *state = State::Revoked(hold.clone());
                *until_ms += grace_ms;
            }
            State::Awaited(hold) => *state = State::Revoked(hold.clone()),
            State::Closed | State::Cooling { .. } | State::Revoked(_) | State::Shared { .. } => {}
        }
    }
}
