//! Renew: moves a deadline on. Never revives, never shortens.

use std::time::Duration;

use super::Step;
use crate::holder::{HoldState, HolderId, Mode};
use crate::request::Reply;

impl Step<'_> {
    pub(super) fn renew(&mut self, id: HolderId, ttl: Duration, believed: (Mode, u64)) -> Reply {
        self.sweep();
        let found = self.live_hold(id).map(|index| (index, self.record.holds[index].state));
        let reply = match found {
            Some((index, HoldState::Claimed | HoldState::Unclaimed))
                if self.agree(index, believed) =>
            {
                Reply::Granted(self.confirm(index, ttl))
            }
            Some((_, HoldState::Revoked)) => Reply::Revoked(true),
            Some((_, HoldState::Claimed | HoldState::Kept | HoldState::Unclaimed)) | None => {
                Reply::NotHeld { newest: self.newest() }
            }
        };
        self.promote(None);
        reply
    }
}
