//! Keep: a lease lives longer, a grant that was handed over is claimed, a hold is described.

use leasehold_core::HolderId;

use super::Step;
use super::action::{Description, Reply};
use super::record::{Gate, State};

impl Step<'_> {
    pub(super) fn keep(
        &mut self,
        id: HolderId,
        ttl_ms: u64,
        description: Option<&Description>,
    ) -> Reply {
        if !self.record.is_held_by(id) {
            return self.keep_share(id, ttl_ms);
        }
        if self.left_ms() == 0 {
            return Reply::NotHeld;
        }
        let awaited = match self.record.gate.as_ref().map(|gate| &gate.state) {
            Some(State::Revoked(_)) => return Reply::Revoked,
            gate => !matches!(gate, Some(State::Held(_))),
        };
        let Some(hold) = self.record.hold() else { return Reply::NotHeld };
        if let Some(Description { token, info }) = description {
            hold.token = hold.token.max(Some(*token));
            hold.info = info.clone();
            *self.counter = (*self.counter).max(*token);
        }
        self.extend(ttl_ms);
        Reply::Kept { awaited }
    }

    /// Moves the end of an exclusive hold. It never comes earlier: its holder may rely on it.
    pub(super) fn extend(&mut self, ttl_ms: u64) {
        let (now_ms, grace_ms) = (self.now_ms(), self.rules.times.grace_ms);
        let Some(Gate { state, until_ms }) = &mut self.record.gate else { return };
        let grace_ms = if matches!(state, State::Held(_)) { 0 } else { grace_ms };
        *until_ms = (*until_ms).max(now_ms + ttl_ms + grace_ms);
    }

    /// Keeps a shared hold that lives, and the gate with it.
    pub(super) fn keep_share(&mut self, id: HolderId, ttl_ms: u64) -> Reply {
        let (now_ms, grace_ms) = (self.now_ms(), self.rules.times.grace_ms);
        let awaited = !self.record.queue.is_empty();
        let is_revoked = self.record.closed.contains(&id);
        let Some(share) = self.record.shares.get_mut(&id) else { return Reply::NotHeld };
        if share.deadline_ms < now_ms {
            return Reply::NotHeld;
        }
        if is_revoked {
            return Reply::Revoked;
        }
        share.deadline_ms = share.deadline_ms.max(now_ms + ttl_ms);
        if let Some(gate) = &mut self.record.gate {
            gate.until_ms = gate.until_ms.max(now_ms + ttl_ms + grace_ms);
        }
        Reply::Kept { awaited }
    }
}
