//! Inspect: returns the holders, the waiters and the last holder. Changes nothing.

use std::time::Duration;

use super::step::Step;
use crate::holder::{Ending, HoldState, Holder, Mode, Status, Waiter};
use crate::request::Reply;
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn inspect(&self, limit: u32) -> Reply {
        let (now_us, capacity) = (self.now_us(), self.record.capacity);
        let since = |us: u64| Duration::from_micros(now_us.saturating_sub(us));
        let (mut holders, mut last) = (Vec::new(), self.record.last.clone());
        for hold in &self.record.holds {
            if holders.len() == limit as usize {
                break;
            }
            if hold.deadline_us > now_us {
                let holder = Holder {
                    id: hold.id,
                    mode: hold.mode(capacity),
                    state: hold.state,
                    token: FencingToken::from_micros(hold.token_us),
                    info: hold.info.clone(),
                    held_for: since(hold.since_us),
                    ttl_left: Duration::from_micros(hold.deadline_us - now_us),
                };
                holders.push(holder.as_passed_on());
            } else if hold.state != HoldState::Cooldown {
                // No step has noticed the end of this hold yet.
                let ended = hold.ended(capacity, now_us, Ending::Expired);
                last = Some(ended.or_later(last, now_us));
            }
        }
        let waiters = self.record.queue.values().take(limit as usize).zip(1..);
        let waiters = waiters.map(|(waiting, position)| Waiter {
            id: waiting.id,
            mode: Mode::of(waiting.weight, waiting.capacity),
            info: waiting.info.clone(),
            waited: since(waiting.since_us),
            position,
        });
        let status = Status::default()
            .with_holders(holders)
            .with_waiters(waiters.collect())
            .with_waiting(self.record.queue.len() as u32)
            .with_last_token(self.newest())
            .with_last_holder(last.map(|last| last.at(now_us)));
        Reply::Status(Box::new(status))
    }
}
