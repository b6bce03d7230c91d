//! Inspect: returns the holders, the waiters and the last holder. Changes nothing.

use std::time::Duration;

use super::step::Step;
use crate::holder::{Holder, Mode, Status, Waiter};
use crate::request::Reply;
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn inspect(&self, limit: u32) -> Reply {
        let (now_us, capacity) = (self.now_us(), self.record.capacity);
        let since = |us: u64| Duration::from_micros(now_us.saturating_sub(us));
        // No step has noticed the end of the other holds yet.
        let live = self.record.holds.iter().filter(|hold| hold.deadline_us > now_us);
        let holders = live.take(limit as usize).map(|hold| {
            let holder = Holder {
                id: hold.id,
                mode: hold.mode(capacity),
                state: hold.state,
                token: FencingToken::from_micros(hold.token_us),
                info: hold.info.clone(),
                held_for: since(hold.since_us),
                ttl_left: Duration::from_micros(hold.deadline_us - now_us),
            };
            holder.as_passed_on()
        });
        let waiters = self.record.queue.values().take(limit as usize).zip(1..);
        let waiters = waiters.map(|(waiting, position)| Waiter {
            id: waiting.id,
            mode: Mode::of(waiting.weight, waiting.capacity),
            info: waiting.info.clone(),
            waited: since(waiting.since_us),
            position,
        });
        let status = Status::default()
            .with_holders(holders.collect())
            .with_waiters(waiters.collect())
            .with_waiting(self.record.queue.len() as u32)
            .with_last_token(self.newest())
            .with_last_holder(self.record.last.as_ref().map(|last| last.at(now_us)));
        Reply::Status(Box::new(status))
    }
}
