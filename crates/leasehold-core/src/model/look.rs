//! Look: who holds, who waits, which run succeeded last. Changes nothing.

use std::sync::Arc;
use std::time::Duration;

use super::Step;
use super::record::{Gate, Hold, Share, State};
use crate::holder::{HoldState, Holder, Mode, Status, Waiter};
use crate::request::{Reply, Request};
use crate::token::FencingToken;

impl Step<'_> {
    pub(super) fn look(&self, limit: u32) -> Reply {
        let (record, left_ms, limit) = (&self.record, self.left_ms(), limit as usize);
        let mut status = Status::default()
            .with_waiters(self.waiters(limit))
            .with_waiting(u32::try_from(record.queue.len()).unwrap_or(u32::MAX))
            .with_last_holder(record.last.as_ref().map(|last| last.seen_at(self.now)));
        match record.gate.as_ref().map(|Gate { state, .. }| state) {
            Some(State::Awaited(hold) | State::Held(hold)) => {
                status.holders.extend(self.holder(hold, HoldState::Claimed, left_ms));
            }
            Some(State::Revoked(hold)) => {
                status.holders.extend(self.holder(hold, HoldState::Revoked, left_ms));
            }
            Some(State::Shared { .. }) => status.holders = self.sharers(limit),
            Some(State::Cooling { by: Some(by), .. }) => {
                let hold = Hold { id: by.id, token: None, info: (*by.info).clone() };
                status.holders.extend(self.holder(&hold, HoldState::Cooldown, left_ms));
            }
            Some(State::Cooling { by: None, .. } | State::Closed) | None => {}
        }
        Reply::Status(Box::new(status))
    }

    fn holder(&self, hold: &Hold, state: HoldState, left_ms: u64) -> Option<Holder> {
        let token = hold.token.map(FencingToken::from_micros);
        let holder = Holder::new(hold.id, Mode::Exclusive, token)
            .with_state(state)
            .with_info(hold.info.clone())
            .with_ttl_left(Duration::from_millis(left_ms));
        (left_ms > 0).then(|| holder.seen_at(self.now))
    }

    fn sharers(&self, limit: usize) -> Vec<Holder> {
        let now_ms = self.now_ms();
        let live = self.record.shares.values().filter(|share| share.deadline_ms >= now_ms);
        let holders = live.take(limit).map(|Share { request, token, deadline_ms }| {
            let Request { id, mode, info } = request.clone();
            let ttl_left = Duration::from_millis(deadline_ms + 1 - now_ms);
            let is_revoked = self.record.closed.contains(&id);
            let state = if is_revoked { HoldState::Revoked } else { HoldState::Claimed };
            Holder::new(id, mode, Some(FencingToken::from_micros(*token)))
                .with_state(state)
                .with_info(Arc::unwrap_or_clone(info))
                .with_ttl_left(ttl_left)
                .seen_at(self.now)
        });
        holders.collect()
    }

    fn waiters(&self, limit: usize) -> Vec<Waiter> {
        let first = self.record.queue.iter().take(limit).zip(1..);
        let waiters = first.map(|((place, waiter), position)| {
            let Request { id, mode, info } = waiter.request.clone();
            let waited = Duration::from_micros(self.now.token_us.saturating_sub(*place));
            Waiter::new(id, mode, Arc::unwrap_or_clone(info), waited, position)
        });
        waiters.collect()
    }
}
