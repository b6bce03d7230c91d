//! Take: the name is granted, or the attempt joins the queue, or the name is busy.
//!
//! A waiter takes again to keep its place. Any client that asks after a deadline hands the name to
//! the first waiter, so a waiter that is frozen stops nobody.

use leasehold_core::{LOCK_CAPACITY, Mode};

use super::action::{Refusal, Reply, Take};
use super::record::{Gate, Last, State, Waiter};
use super::{BALLOT_LEAD_US, MAX_WAITING, Step};

impl Step<'_> {
    pub(super) fn take(&mut self, take: &Take) -> Reply {
        if self.record.closed.contains(&take.id) {
            self.record.leave(take.id);
            return Reply::Closed;
        }
        if let Some(reply) = self.take_again(take) {
            return reply;
        }
        if take.from.is_some() {
            return Reply::NotHeld;
        }
        if let Some(refusal) = self.refusal(take) {
            return Reply::Refused(refusal);
        }
        if take.claim.is_some() && !self.rules.in_quarantine {
            return Reply::NotHeld;
        }
        self.end_shares();
        if self.record.queue.is_empty() && !self.is_shut() && self.fits(take.mode) {
            let token = self.draw(take.ballot);
            self.grant(&self.waiter(take), token, (take.ttl_ms, true));
            return Reply::Granted { token };
        }
        let place = self.join(take);
        if let Some(token) = self.serve(Some(take)) {
            return Reply::Granted { token };
        }
        let left_ms =
            if self.rules.in_quarantine { self.rules.times.ask_ms } else { self.left_ms() };
        if take.claim.is_some() {
            self.record.leave(take.id);
            return Reply::NotHeld;
        }
        if !take.waits {
            self.record.leave(take.id);
            self.settle();
            return Reply::Busy { left_ms };
        }
        self.expect_waiters();
        let ahead = self.record.queue.range(..place).count();
        Reply::Queued { place, ahead, ask_ms: left_ms.min(self.rules.times.ask_ms) }
    }

    /// The reply to a copy of a request that was granted: the same grant again. A lease that was
    /// handed out as a value goes to the one that took it over, once.
    fn take_again(&mut self, take: &Take) -> Option<Reply> {
        if let Reply::Kept { .. } = self.keep_share(take.id, take.ttl_ms) {
            return Some(Reply::Granted { token: self.draw(None) });
        }
        let hold = self.record.hold()?;
        let from = take.from.filter(|_| hold.id != take.id);
        let is_handed_out =
            from.is_some_and(|from| (from.0, Some(from.1)) == (hold.id, hold.token));
        if hold.id != take.id && !is_handed_out {
            return None;
        }
        let (before, token) = (hold.id, hold.token.filter(|_| !is_handed_out));
        if matches!(self.record.gate, Some(Gate { state: State::Revoked(_), .. })) {
            return Some(Reply::Revoked);
        }
        let token = token.unwrap_or_else(|| self.draw(None));
        if let Some(hold) = self.record.hold() {
            (hold.id, hold.token) = (take.id, Some(token));
        }
        self.record.leave(take.id);
        if before != take.id {
            self.close(before);
        }
        self.extend(take.ttl_ms);
        Some(Reply::Granted { token })
    }

    fn refusal(&self, take: &Take) -> Option<Refusal> {
        let (weight, capacity) = (take.mode.weight(), take.mode.capacity());
        let in_force = match self.record.gate.as_ref().map(|gate| &gate.state) {
            Some(State::Held(_) | State::Awaited(_) | State::Revoked(_)) => LOCK_CAPACITY,
            Some(State::Shared { capacity }) => *capacity,
            Some(State::Cooling { .. } | State::Closed) | None => capacity,
        };
        let highest_us = self.now.token_us.max(*self.counter);
        let is_same_kind = (in_force == LOCK_CAPACITY) == (capacity == LOCK_CAPACITY);
        let is_full = take.waits && self.record.queue.len() >= MAX_WAITING && take.place.is_none();
        if weight > capacity {
            Some(Refusal::Weight)
        } else if !is_same_kind || in_force != capacity && !take.waits {
            Some(Refusal::Mismatch { capacity: in_force })
        } else if take.ballot.is_some_and(|ballot| ballot > highest_us + BALLOT_LEAD_US) {
            Some(Refusal::Ballot)
        } else {
            is_full.then_some(Refusal::QueueFull)
        }
    }

    /// Puts the attempt into the queue, or keeps its place there. Returns the place. A waiter whose
    /// place was lost brings it again.
    fn join(&mut self, take: &Take) -> u64 {
        self.record.queue_until_ms = self.now_ms() + self.rules.times.queue_ms;
        let old = self.record.place_of(take.id).or(take.place);
        let place = old.unwrap_or_else(|| self.draw(None));
        let waiter = self.waiter(take);
        self.record.queue.insert(place, waiter);
        place
    }

    fn waiter(&self, take: &Take) -> Waiter {
        let (id, mode, info) = (take.id, take.mode, take.info.clone());
        Waiter { id, mode, info, asked_ms: self.now_ms() }
    }

    /// The holder learns at its end that somebody waits, and the gate keeps newcomers out until the
    /// first waiter has asked.
    fn expect_waiters(&mut self) {
        let grace_ms = self.rules.times.grace_ms;
        let Some(Gate { state, until_ms }) = &mut self.record.gate else { return };
        match state {
            State::Held(hold) => {
                *state = State::Awaited(hold.clone());
                *until_ms += grace_ms;
            }
            State::Cooling { until_ms: free_ms, .. } => {
                *until_ms = (*until_ms).max(*free_ms + grace_ms);
            }
            State::Awaited(_) | State::Closed | State::Revoked(_) | State::Shared { .. } => {}
        }
    }

    /// For how long the gate keeps everybody else out, unless its holder is renewed; zero if it
    /// does not.
    pub(super) fn left_ms(&self) -> u64 {
        self.deadline_ms().map_or(0, |deadline_ms| (deadline_ms + 1).saturating_sub(self.now_ms()))
    }

    /// The last millisecond in which somebody has the name, or nobody may.
    fn deadline_ms(&self) -> Option<u64> {
        let Gate { state, until_ms } = self.record.gate.as_ref()?;
        match state {
            State::Held(_) => Some(*until_ms),
            State::Awaited(_) | State::Revoked(_) => Some(until_ms - self.rules.times.grace_ms),
            State::Shared { .. } => {
                self.record.shares.values().map(|share| share.deadline_ms).min()
            }
            State::Cooling { until_ms, .. } => until_ms.checked_sub(1),
            State::Closed => None,
        }
    }

    /// Whether one hold, or nobody, keeps everybody out.
    pub(super) fn is_shut(&self) -> bool {
        let is_shared = matches!(self.record.gate, Some(Gate { state: State::Shared { .. }, .. }));
        self.rules.in_quarantine || !is_shared && self.left_ms() > 0
    }

    /// Who held last, if the gate says so.
    pub(super) fn last(&self) -> Option<&Last> {
        match &self.record.gate.as_ref()?.state {
            State::Cooling { last, .. } => last.as_ref(),
            State::Awaited(_)
            | State::Closed
            | State::Held(_)
            | State::Revoked(_)
            | State::Shared { .. } => None,
        }
    }

    /// Whether a request fits beside those that hold.
    pub(super) fn fits(&self, mode: Mode) -> bool {
        match (&self.record.gate, self.record.used()) {
            (_, 0) => true,
            (Some(Gate { state: State::Shared { capacity }, .. }), used) => {
                *capacity == mode.capacity() && used.saturating_add(mode.weight()) <= *capacity
            }
            (_, _) => false,
        }
    }
}
