//! Poll: confirms a grant, or keeps a waiter's place. Never joins a queue.

use std::time::Duration;

use super::step::Step;
use crate::holder::{ClientId, HoldState, HolderId};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn poll(&mut self, id: HolderId, ttl: Duration) -> Reply {
        self.sweep();
        if let Some((slot, state)) = self.live_hold(id) {
            let reply = match state {
                HoldState::Claimed | HoldState::Unclaimed => {
                    Reply::Granted(self.confirm(slot, ttl))
                }
                HoldState::Cooldown | HoldState::Revoked => Reply::Gone,
            };
            self.promote(None);
            return reply;
        }
        let Some(sequence) = self.record.waiting_of(id) else {
            self.promote(None);
            return Reply::Gone;
        };
        self.see(id.client);
        self.promote(Some(id));
        match self.record.hold_of(id) {
            Some(slot) => Reply::Granted(self.confirm(slot, ttl)),
            None => Reply::Queued(self.place(sequence)),
        }
    }

    /// Records that a client with a waiter is alive.
    pub(super) fn see(&mut self, client: ClientId) {
        let now_us = self.now_us();
        if let Some(seen) = self.record.clients.get_mut(&client) {
            seen.last_us = now_us;
        }
        self.keep_until(now_us);
    }
}
