//! Release: ends a hold and grants the lock to the next waiter in the same step.

use std::time::Duration;

use super::rows::LastHold;
use super::step::Step;
use crate::bugs::{self, Bug};
use crate::holder::{HoldState, HolderId};
use crate::request::Reply;
use crate::time::micros;

impl Step<'_> {
    pub(super) fn release(&mut self, id: HolderId, cooldown: Duration, unanswered: bool) -> Reply {
        self.sweep();
        let Some((slot, state)) = self.live_hold(id) else {
            if unanswered {
                self.add_tombstone(id);
            }
            self.promote(None);
            return Reply::NotHeld { newest: self.newest() };
        };
        if state == HoldState::Cooldown {
            return Reply::Released;
        }
        self.note_release(slot, state);
        if cooldown.is_zero() {
            self.record.remove_hold(slot);
            if bugs::is_on(Bug::LastTokenForgotten) {
                self.record.last_token_us = 0;
            }
        } else {
            self.cool_down(slot, cooldown);
        }
        if unanswered {
            self.add_tombstone(id);
        }
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::Released
    }

    /// Remembers who released the name last. A hold that an operator has revoked does not count:
    /// its job did not come to its end.
    fn note_release(&mut self, slot: usize, state: HoldState) {
        if state != HoldState::Revoked {
            let hold = &self.record.holds[slot];
            let (id, info) = (hold.id, hold.info.clone());
            self.record.last = Some(LastHold { id, ended_us: self.now_us(), info });
        }
    }

    /// Begins a cooldown, in which the name stays taken by nobody.
    fn cool_down(&mut self, slot: usize, cooldown: Duration) {
        let deadline_us = self.now_us() + micros(cooldown);
        let hold = &mut self.record.holds[slot];
        hold.state = HoldState::Cooldown;
        hold.ttl_us = micros(cooldown);
        hold.deadline_us = deadline_us;
        let sweep = &mut self.record.sweep;
        sweep.longest_ttl_us = sweep.longest_ttl_us.max(micros(cooldown));
        sweep.expect(slot, deadline_us);
        self.keep_until(deadline_us);
    }
}
