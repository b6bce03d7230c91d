//! Look: who holds, who waits, who held last. Changes nothing.

use leasehold_core::Mode;

use super::Step;
use super::action::{Reply, Status};
use super::record::{Gate, Hold, State};

impl Step<'_> {
    pub(super) fn look(&self, limit: usize) -> Reply {
        let (record, now_ms, left_ms) = (&self.record, self.now_ms(), self.left_ms());
        let mut status = Status { waiting: record.queue.len(), ..Status::default() };
        let waiters = record.queue.iter().take(limit);
        status.waiters = waiters.map(|(place, w)| (*place, w.id, w.mode)).collect();
        match record.gate.as_ref().map(|Gate { state, .. }| state) {
            Some(state @ (State::Held(hold) | State::Awaited(hold) | State::Revoked(hold))) => {
                status.is_revoked = matches!(state, State::Revoked(_));
                if left_ms > 0 {
                    status.holders.push((hold.clone(), Mode::Exclusive, left_ms));
                }
            }
            Some(State::Shared { capacity }) => {
                let live = record.shares.iter().filter(|(_, share)| share.deadline_ms >= now_ms);
                status.holders.extend(live.take(limit).map(|(id, share)| {
                    let hold = Hold { id: *id, token: None, info: share.info.clone() };
                    let mode = Mode::of(share.weight, *capacity);
                    (hold, mode, share.deadline_ms + 1 - now_ms)
                }));
            }
            Some(State::Cooling { last, .. }) => {
                status.cools_ms = (left_ms > 0).then_some(left_ms);
                status.last.clone_from(last);
            }
            Some(State::Closed) | None => {}
        }
        Reply::Status(Box::new(status))
    }
}
