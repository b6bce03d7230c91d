//! End: a hold or a wait is over, and the next waiter gets the name in the same step.

use super::Step;
use super::record::{Gate, Last, State};
use super::take::millis;
use crate::request::{End, Reply};

impl Step<'_> {
    pub(super) fn end(&mut self, end: &End) -> Reply {
        let id = end.request.id;
        let waited = self.record.leave(id);
        let is_revoked = self.record.is_revoked();
        let held = self.record.is_held_by(id);
        let token = self.record.hold().filter(|_| held && !is_revoked).and_then(|hold| hold.token);
        if held {
            self.record.gate = None;
        }
        if let Some(token) = token.filter(|_| !end.done.is_zero()) {
            let (request, ended_ms) = (end.request.clone(), self.now.token_us / 1_000);
            let (began_ms, until_ms) = (ended_ms.min(token / 1_000), ended_ms + millis(end.done));
            self.record.last = Some(Last { request, token, began_ms, ended_ms, until_ms });
        }
        let shared = self.record.shares.remove(&id).is_some();
        if end.closes {
            self.close(id);
        }
        if held && !is_revoked && !end.cooldown.is_zero() {
            self.cool(end);
        }
        if held || shared {
            self.end_shares();
            self.serve(None);
        }
        Reply::Ended(waited || held || shared)
    }

    /// The name stays taken by nobody for a while.
    fn cool(&mut self, end: &End) {
        let free_ms = self.now_ms() + millis(end.cooldown);
        let grace_ms = if self.record.queue.is_empty() { 0 } else { self.rules.times.grace_ms };
        let until_ms = (free_ms + grace_ms).max(self.closed_until_ms());
        let state = State::Cooling { until_ms: free_ms, by: Some(end.request.clone()) };
        self.record.gate = Some(Gate { state, until_ms });
    }
}
