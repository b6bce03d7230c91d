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
        if held {
            self.record.gate = None;
        }
        if end.closes {
            self.close(id);
        }
        if held && !is_revoked {
            self.cool(end);
        }
        let shared = self.record.shares.remove(&id).is_some();
        if held || shared {
            self.end_shares();
            self.serve(None);
        }
        Reply::Ended(waited || held || shared)
    }

    /// The name stays taken by nobody for a while, or says for a while who held it last.
    fn cool(&mut self, end: &End) {
        let (now_ms, times) = (self.now_ms(), self.rules.times);
        let free_ms = now_ms + millis(end.cooldown);
        let last_ms = now_ms + millis(end.cooldown.max(end.remember));
        if last_ms == now_ms {
            return;
        }
        let (id, info) = (end.request.id, (*end.request.info).clone());
        let last = Some(Last { id, info, ended_ms: now_ms });
        let awaited_ms = if self.record.queue.is_empty() { 0 } else { free_ms + times.grace_ms };
        let until_ms = last_ms.max(awaited_ms).max(self.closed_until_ms());
        let state = State::Cooling { until_ms: free_ms, last };
        self.record.gate = Some(Gate { state, until_ms });
    }
}
