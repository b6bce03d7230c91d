//! Inspect: who holds and who waits. Changes nothing.

use std::time::Duration;

use super::Step;
use crate::holder::{Holder, Mode, Status, Waiter};
use crate::request::Reply;
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn inspect(&mut self, limit: u32) -> Reply {
        let (now_us, capacity) = (self.now_us(), self.record.capacity);
        let since = |us: u64| Duration::from_micros(now_us.saturating_sub(us));
        let holders = self
            .record
            .holds
            .iter()
            .filter(|hold| hold.deadline_us > now_us)
            .take(limit as usize)
            .map(|hold| Holder {
                id: hold.id,
                mode: hold.mode(capacity),
                state: hold.state,
                token: FencingToken::at_us(hold.token_us),
                facts: hold.facts.clone(),
                held_for: since(hold.since_us),
                ttl_left: Duration::from_micros(hold.deadline_us - now_us),
            })
            .collect();
        let waiters = self
            .record
            .queue
            .values()
            .take(limit as usize)
            .zip(1..)
            .map(|(waiting, position)| Waiter {
                id: waiting.id,
                mode: Mode::of(waiting.weight, waiting.capacity),
                facts: waiting.facts.clone(),
                waited: since(waiting.since_us),
                position,
            })
            .collect();
        let waiting = self.record.queue.len() as u32;
        let last_token = self.newest();
        Reply::Status(Box::new(Status { foreign: None, holders, waiters, waiting, last_token }))
    }
}
