//! End: a hold or a wait is over, and the next waiter gets the name in the same step.

use super::Step;
use super::action::{End, Reply};
use super::record::{Gate, Last, State};

impl Step<'_> {
    pub(super) fn end(&mut self, end: &End) -> Reply {
        let waited = self.record.leave(end.id);
        let is_revoked = matches!(self.record.gate, Some(Gate { state: State::Revoked(_), .. }));
        let held = self.record.is_held_by(end.id);
        if held {
            self.record.gate = None;
        }
        if end.closes {
            self.close(end.id);
        }
        if held {
            // The job of a hold that was revoked did not come to its end.
            self.cool(end, !is_revoked);
        }
        let shared = self.record.shares.remove(&end.id).is_some();
        if held || shared {
            self.end_shares();
            self.serve(None);
        }
        Reply::Ended(waited || held || shared)
    }

    /// The name stays taken by nobody for a while, or says for a while who held it last.
    fn cool(&mut self, end: &End, is_remembered: bool) {
        let (now_ms, times) = (self.now_ms(), self.rules.times);
        let free_ms = now_ms + end.cooldown_ms;
        let remember = end.remember.as_ref().filter(|_| is_remembered);
        let last =
            remember.map(|(_, info)| Last { id: end.id, info: info.clone(), ended_ms: now_ms });
        if end.cooldown_ms == 0 && last.is_none() {
            return;
        }
        let remember_ms = remember.map_or(0, |(remember_ms, _)| now_ms + remember_ms);
        let awaited_ms = if self.record.queue.is_empty() { 0 } else { free_ms + times.grace_ms };
        let until_ms = [free_ms, remember_ms, awaited_ms, self.closed_until_ms()];
        self.record.gate = Some(Gate {
            state: State::Cooling { until_ms: free_ms, last },
            until_ms: until_ms.into_iter().max().unwrap_or(free_ms),
        });
    }
}
