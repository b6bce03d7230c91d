//! Renew: moves a deadline to a later time. It never revives and never shortens a hold.

use std::time::Duration;

use super::step::Step;
use crate::bugs::{self, Bug};
use crate::holder::{HoldState, HolderId};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn renew(&mut self, id: HolderId, ttl: Duration) -> Reply {
        if bugs::is_on(Bug::LateRenewalRevives)
            && let Some(slot) = self.record.hold_of(id)
        {
            return Reply::Granted(self.confirm(slot, ttl));
        }
        self.sweep();
        let reply = match self.live_hold(id) {
            Some((slot, HoldState::Claimed | HoldState::Unclaimed)) => {
                Reply::Granted(self.confirm(slot, ttl))
            }
            Some((_, HoldState::Revoked)) => Reply::Revoked(true),
            None if self.record.is_revoked(id, self.now_us()) => Reply::Revoked(true),
            Some((_, HoldState::Cooldown)) | None => Reply::NotHeld { newest: self.newest() },
        };
        self.promote(None);
        reply
    }
}
