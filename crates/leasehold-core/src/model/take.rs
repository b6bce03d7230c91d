//! Take: the name is granted, or the attempt joins the queue, or the name is busy.
//!
//! A waiter takes again to keep its place. Any client that asks after a deadline hands the name to
//! the first waiter, so a waiter that is frozen stops nobody.

use std::time::Duration;

use super::Step;
use super::limits::MAX_WAITING;
use super::record::{Gate, Share, State, Waiter};
use crate::bugs::{self, Bug};
use crate::holder::{LOCK_CAPACITY, Mode};
use crate::request::{Grant, Place, Refusal, Reply, Take};
use crate::token::FencingToken;

/// Whole milliseconds of a span, of which none is lost.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// The answer to the attempt that holds.
fn granted(token_us: u64) -> Reply {
    Reply::Granted(Grant::new(FencingToken::from_micros(token_us)))
}

impl Step<'_> {
    pub(super) fn take(&mut self, take: &Take) -> Reply {
        let id = take.request.id;
        if self.record.closed.contains(&id) {
            self.record.leave(id);
            return Reply::Closed;
        }
        if let (Some(span), Some(last)) = (take.once_per, &self.record.last) {
            let next_ms = last.began_ms + millis(span);
            let left_ms = next_ms.saturating_sub(self.now.token_us / 1_000);
            if left_ms > 0 {
                let last = Box::new(last.seen_at(self.now));
                self.record.leave(id);
                return Reply::Done { last, next_in: Duration::from_millis(left_ms) };
            }
        }
        if let Some(reply) = self.take_again(take) {
            return reply;
        }
        if let Some(from) = take.from {
            // The lease was adopted or ended here, or it was never here.
            let was_ended = self.record.closed.contains(&from);
            return if was_ended { Reply::Closed } else { Reply::NotHeld };
        }
        if let Some(refusal) = self.refusal(take) {
            return Reply::Refused(refusal);
        }
        if take.claim.is_some() && !self.rules.in_quarantine {
            return Reply::NotHeld;
        }
        self.end_shares();
        let mode = take.request.mode;
        let is_first = self.record.queue.is_empty() || bugs::is_on(Bug::NewcomerBarges);
        if is_first && !self.is_shut() && self.fits(mode) {
            let token = self.draw(take.ballot_us);
            self.grant(&take.request, token, (millis(take.ttl), true));
            return granted(token);
        }
        let in_force = self.in_force(mode.capacity());
        // Who cannot wait has no place while nobody is granted the name.
        let joins = take.claim.is_none() && (take.waits || !self.is_shut());
        let place = if joins { self.join(take) } else { 0 };
        if let Some(token) = self.serve(Some(take)) {
            return granted(token);
        }
        if take.claim.is_some() {
            return Reply::NotHeld;
        }
        let left_ms = self.rules.grants_after_ms().unwrap_or_else(|| self.left_ms());
        if !take.waits {
            self.record.leave(id);
            self.settle();
            return Reply::Busy { retry_after: Duration::from_millis(left_ms) };
        }
        self.expect_waiters();
        let ahead = u32::try_from(self.record.queue.range(..place).count()).unwrap_or(u32::MAX);
        let retry_after = Duration::from_millis(left_ms.min(self.rules.times.ask_ms));
        let other_capacity = (in_force != mode.capacity()).then_some(in_force);
        let place = Place::new(place, ahead, retry_after).with_other_capacity(other_capacity);
        Reply::Queued(place)
    }

    /// The reply to a copy of a request that was granted: the same grant again. A lease that was
    /// handed out as a value goes to the one that took it over, once.
    fn take_again(&mut self, take: &Take) -> Option<Reply> {
        let id = take.request.id;
        let is_over = self.left_ms() == 0 && !self.record.is_revoked();
        if let Reply::Kept { .. } = self.keep_share(id, millis(take.ttl)) {
            let token = self.record.shares.get(&id).map(|share| share.token)?;
            return Some(granted(token));
        }
        if let Some(reply) = self.take_share_over(take) {
            return Some(reply);
        }
        let hold = self.record.hold()?;
        let is_handed_out = hold.id != id && take.from == Some(hold.id);
        if hold.id != id && !is_handed_out || is_over {
            return None;
        }
        let (before, old) = (hold.id, hold.token.filter(|_| !is_handed_out));
        if self.record.is_revoked() {
            return Some(Reply::Revoked);
        }
        if let Some(reply) = self.cannot_pass_on(take).filter(|_| is_handed_out) {
            return Some(reply);
        }
        let token = old.unwrap_or_else(|| self.draw(take.ballot_us));
        if let Some(hold) = self.record.hold_mut() {
            (hold.id, hold.token) = (id, Some(token));
            if old.is_none() {
                hold.info = (*take.request.info).clone();
            }
        }
        self.record.leave(id);
        if is_handed_out {
            self.close(before);
        }
        self.extend(millis(take.ttl));
        Some(granted(token))
    }

    /// A reader, or a holder of permits, takes over the lease of another one.
    fn take_share_over(&mut self, take: &Take) -> Option<Reply> {
        let from = take.from?;
        let before = self.record.shares.get(&from)?;
        if before.deadline_ms < self.now_ms() || before.request.mode != take.request.mode {
            return None;
        }
        if self.record.closed.contains(&from) {
            return Some(Reply::Revoked);
        }
        if let Some(reply) = self.cannot_pass_on(take) {
            return Some(reply);
        }
        let token = self.draw(take.ballot_us);
        self.record.leave(take.request.id);
        let mut share = self.record.shares.remove(&from)?;
        (share.request, share.token) = (take.request.clone(), token);
        self.record.shares.insert(take.request.id, share);
        self.close(from);
        self.keep_share(take.request.id, millis(take.ttl));
        Some(granted(token))
    }

    /// Why nobody can be granted a new token for a lease that was handed out.
    fn cannot_pass_on(&self, take: &Take) -> Option<Reply> {
        if self.is_too_far_ahead(take.ballot_us) {
            return Some(Reply::Refused(Refusal::Ballot));
        }
        let after_ms = self.rules.grants_after_ms().filter(|_| self.rules.held_back)?;
        Some(Reply::Busy { retry_after: Duration::from_millis(after_ms) })
    }

    /// The capacity that holders have; `asked` if there are none.
    fn in_force(&self, asked: u32) -> u32 {
        match &self.record.gate {
            Some(Gate { state: State::Shared { capacity }, .. }) if self.is_held() => *capacity,
            Some(_) if self.is_held() => LOCK_CAPACITY,
            Some(_) | None => asked,
        }
    }

    fn refusal(&self, take: &Take) -> Option<Refusal> {
        let mode = take.request.mode;
        let (weight, capacity) = (mode.weight(), mode.capacity());
        let in_force = self.in_force(capacity);
        let is_same_kind = (in_force == LOCK_CAPACITY) == (capacity == LOCK_CAPACITY);
        let waits = self.record.queue.len();
        if weight > capacity {
            Some(Refusal::Weight)
        } else if !is_same_kind || in_force != capacity && !take.waits {
            Some(Refusal::Mismatch { capacity: in_force })
        } else if self.is_too_far_ahead(take.ballot_us.or(take.claim.map(FencingToken::micros))) {
            Some(Refusal::Ballot)
        } else {
            let is_full = take.waits && waits >= MAX_WAITING && take.place.is_none();
            is_full.then_some(Refusal::QueueFull)
        }
    }

    /// Puts the attempt into the queue, or keeps its place there. Returns the place. A waiter whose
    /// place was lost brings it again.
    fn join(&mut self, take: &Take) -> u64 {
        self.record.queue_until_ms = self.now_ms() + self.rules.times.queue_ms;
        let new = take.place.unwrap_or_else(|| self.draw(None));
        let place = self.record.place_of(take.request.id).unwrap_or(new);
        let waiter = Waiter { request: take.request.clone(), asked_ms: self.now_ms() };
        self.record.queue.insert(place, waiter);
        place
    }

    /// The holder learns at its end that somebody waits, and the gate keeps newcomers out until the
    /// first waiter has asked.
    pub(super) fn expect_waiters(&mut self) {
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
            State::Awaited(_) | State::Revoked(_) => {
                Some(until_ms.saturating_sub(self.rules.times.grace_ms))
            }
            State::Shared { .. } => {
                self.record.shares.values().map(|share| share.deadline_ms).min()
            }
            State::Cooling { until_ms, .. } => until_ms.checked_sub(1),
            State::Closed => None,
        }
    }

    /// Whether somebody holds whose time is not over.
    pub(super) fn is_held(&self) -> bool {
        let is_live = |share: &Share| share.deadline_ms >= self.now_ms();
        let is_alone = self.record.hold().is_some() && self.left_ms() > 0;
        is_alone || self.record.shares.values().any(is_live)
    }

    /// Whether one hold, or nobody, keeps everybody out.
    pub(super) fn is_shut(&self) -> bool {
        let is_shared = matches!(self.record.gate, Some(Gate { state: State::Shared { .. }, .. }));
        self.rules.grants_after_ms().is_some() || !is_shared && self.left_ms() > 0
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
