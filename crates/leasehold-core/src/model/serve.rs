//! Serve: who gets the name next, and what its gate says then.
//!
//! Every step that ends a hold serves the queue, and so does every waiter that asks after a
//! deadline.

use std::sync::Arc;

use super::Step;
use super::limits::BATCH;
use super::record::{Gate, Hold, Share, State, Waiter};
use super::take::millis;
use crate::bugs::{self, Bug};
use crate::holder::{HolderId, Mode};
use crate::request::{Message, Request, Take};
use crate::token::FencingToken;

impl Step<'_> {
    /// Grants the name to the first waiters, unless it is shut. If the caller is among them, it has
    /// its lease; the others have to claim theirs. Returns the caller's token.
    ///
    /// A waiter that has not asked for too long is passed over: it joins again when it goes on.
    pub(super) fn serve(&mut self, caller: Option<&Take>) -> Option<u64> {
        let mut own = self.give_back(caller);
        if own.is_some() || self.is_shut() {
            return own;
        }
        for _ in 0..BATCH {
            let Some(first) = self.record.queue.first_entry() else { break };
            let (place, waiter) = (*first.key(), first.get().clone());
            let take = caller.filter(|take| take.request.id == waiter.request.id);
            if take.is_none() && self.is_silent(&waiter) {
                self.record.queue.remove(&place);
                continue;
            }
            let request = waiter.request;
            if !self.fits(request.mode) {
                break;
            }
            self.record.queue.remove(&place);
            let token = self.draw(take.and_then(|take| take.ballot_us));
            let life_ms = take.map_or(self.rules.times.window_ms, |take| millis(take.ttl));
            self.grant(&request, token, (life_ms, take.is_some()));
            match take {
                Some(_) => own = Some(token),
                None => self.tell(request.id, token),
            }
            if request.mode == Mode::Exclusive {
                return own;
            }
        }
        self.settle();
        own
    }

    fn tell(&mut self, HolderId { client, attempt }: HolderId, token_us: u64) {
        let token = FencingToken::from_micros(token_us);
        let now_us = self.now.lease_us;
        self.messages.push((client, Message::Granted { attempt, token, now_us }));
    }

    /// Gives a forgotten lease back, with its token: only in a quarantine, in which nobody else can
    /// have been granted the name since.
    fn give_back(&mut self, caller: Option<&Take>) -> Option<u64> {
        let take = caller.filter(|_| self.rules.in_quarantine && !self.rules.held_back)?;
        let token = take.claim?.micros();
        let is_free = matches!(
            self.record.gate.as_ref().map(|gate| &gate.state),
            None | Some(State::Closed | State::Shared { .. })
        );
        self.record.leave(take.request.id);
        if !is_free || !self.record.queue.is_empty() || !self.fits(take.request.mode) {
            return None;
        }
        self.grant(&take.request, token, (millis(take.ttl), true));
        Some(token)
    }

    /// Whether a waiter is frozen or dead: it has not asked for too long, or last before the clock
    /// was set back.
    fn is_silent(&self, waiter: &Waiter) -> bool {
        let times = self.rules.times;
        waiter.asked_ms.abs_diff(self.now_ms()) > times.ask_ms + times.window_ms
    }

    /// Gives a waiter a hold. One that was handed over is claimed by a script, so its gate need
    /// not be one that a single command deletes.
    pub(super) fn grant(&mut self, request: &Request, token: u64, (life_ms, is_own): (u64, bool)) {
        let until_ms = self.now_ms() + life_ms;
        *self.counter = (*self.counter).max(token);
        let Request { id, mode, info } = request.clone();
        if mode == Mode::Exclusive {
            let hold = Hold { id, token: Some(token), info: Arc::unwrap_or_clone(info) };
            let is_alone = self.record.queue.is_empty() && self.record.closed.is_empty();
            self.record.gate = Some(Gate { state: State::Held(hold), until_ms });
            if !is_alone || !is_own {
                self.expect_waiters();
            }
        } else {
            let share = Share { request: request.clone(), token, deadline_ms: until_ms };
            self.record.shares.insert(id, share);
            let state = State::Shared { capacity: mode.capacity() };
            self.record.gate = Some(Gate { state, until_ms });
            self.settle();
        }
    }

    /// Writes the gate of a name that no exclusive hold has.
    pub(super) fn settle(&mut self) {
        let (now_ms, times) = (self.now_ms(), self.rules.times);
        if self.left_ms() > 0 && self.record.shares.is_empty() {
            return;
        }
        let last_ms = self.record.shares.values().map(|share| share.deadline_ms).max();
        let until_ms = last_ms.map(|last_ms| last_ms + times.grace_ms);
        match (&mut self.record.gate, until_ms) {
            (Some(gate), Some(until_ms)) => gate.until_ms = until_ms,
            _ if !self.record.queue.is_empty() => {
                // The next client to ask serves the queue.
                let until_ms = (now_ms + times.grace_ms).max(self.closed_until_ms());
                let state = State::Cooling { until_ms: now_ms, by: None };
                self.record.gate = Some(Gate { state, until_ms });
            }
            _ if !self.record.closed.is_empty() => {
                let until_ms = self.closed_until_ms();
                self.record.gate = Some(Gate { state: State::Closed, until_ms });
            }
            (gate, _) => *gate = None,
        }
    }

    pub(super) fn closed_until_ms(&self) -> u64 {
        if self.record.closed.is_empty() { 0 } else { self.record.closed_until_ms }
    }

    /// Ends some of the shared holds whose time is over.
    pub(super) fn end_shares(&mut self) {
        let now_ms = self.now_ms();
        let over = self.record.shares.extract_if(.., |_, share| share.deadline_ms < now_ms);
        over.take(BATCH).for_each(drop);
    }

    /// Remembers that an attempt has ended.
    pub(super) fn close(&mut self, id: HolderId) {
        if bugs::is_on(Bug::NoTombstone) {
            return;
        }
        let until_ms = self.now_ms() + self.rules.times.closed_ms;
        let until_ms = self.record.close(id, until_ms);
        let is_held = self.is_held();
        match &mut self.record.gate {
            // Its release has to leave the closed gate behind.
            Some(Gate { state: State::Held(_), .. }) => self.expect_waiters(),
            Some(Gate { state: State::Cooling { .. }, until_ms: end_ms }) => {
                *end_ms = (*end_ms).max(until_ms);
            }
            Some(_) if is_held => {}
            // What is left of a hold that is over would end earlier.
            Some(_) | None => {
                self.record.shares.clear();
                self.record.gate = Some(Gate { state: State::Closed, until_ms });
            }
        }
    }
}
