//! One action under way, and the work that several actions have in common.

use std::time::Duration;

use super::limits::{
    BALLOT_LEAD, HELD_BACK_INTERVAL, POLL_INTERVAL, RETENTION, Rules, TOMBSTONE_LIFE,
};
use super::record::Record;
use super::rows::Tombstone;
use crate::bugs::{self, Bug};
use crate::holder::{HoldState, HolderId};
use crate::request::{Addressed, Grant, Reply};
use crate::time::{Now, micros};
use crate::token::{FencingToken, TOKEN_EPOCH_US};

/// The result of a step, apart from the changed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The answer to the caller.
    pub reply: Reply,
    /// The messages to other clients.
    pub messages: Vec<Addressed>,
    /// Whether a bound stopped the work: then ask again immediately.
    pub more: bool,
}

/// One action under way.
pub(super) struct Step<'a> {
    pub(super) record: &'a mut Record,
    pub(super) now: Now,
    pub(super) rules: Rules,
    /// How long the record outlives this step, at least.
    pub(super) retention: Duration,
    pub(super) messages: Vec<Addressed>,
    pub(super) more: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(record: &'a mut Record, now: Now, rules: Rules) -> Self {
        Self { record, now, rules, retention: RETENTION, messages: Vec::new(), more: false }
    }

    pub(super) fn outcome(self, reply: Reply) -> Outcome {
        Outcome { reply, messages: self.messages, more: self.more }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.now.lease_us
    }

    /// Keeps the record for the retention after `until_us`, with half a retention of slack, so that
    /// not every step has to change the time.
    pub(super) fn keep_until(&mut self, until_us: u64) {
        let retention = micros(self.retention);
        let needed = until_us.max(self.now_us()) + retention;
        if self.record.collect_at_us < needed {
            self.record.collect_at_us = needed + retention / 2;
        }
    }

    /// The next token: the store's time, or the ballot of a caller that asks several stores.
    pub(super) fn mint(&mut self, ballot_us: Option<u64>) -> u64 {
        // A clock that was never set shows a time before the first possible token, and would mint
        // the same token twice.
        let least = (TOKEN_EPOCH_US + 1).max(self.record.last_token_us + 1);
        let now_us = if bugs::is_on(Bug::CountedToken) { 0 } else { self.now.token_us };
        let proposed_us = match ballot_us {
            // Without this bound, a store that has forgotten the name could grant a token that an
            // earlier holder has had.
            Some(ballot_us) => ballot_us.max(now_us.saturating_sub(micros(BALLOT_LEAD))),
            None => now_us,
        };
        self.record.last_token_us = proposed_us.max(least);
        self.record.last_token_us
    }

    /// Whether a token time that a caller proposes would spoil all later tokens.
    pub(super) fn is_too_far_ahead(&self, token_us: u64) -> bool {
        token_us > self.now.token_us.max(self.record.last_token_us) + micros(BALLOT_LEAD)
    }

    /// Raises the token of a hold, and the last token with it: from now on, nobody is granted a
    /// lower token here, whichever attempt committed this token.
    pub(super) fn raise_token(&mut self, slot: usize, token_us: u64) {
        let hold = &mut self.record.holds[slot];
        hold.token_us = hold.token_us.max(token_us);
        self.record.last_token_us = self.record.last_token_us.max(hold.token_us);
    }

    pub(super) fn newest(&self) -> Option<FencingToken> {
        (self.record.last_token_us > 0)
            .then(|| FencingToken::from_micros(self.record.last_token_us))
    }

    /// The slot and the state of a hold whose time is not over. A hold whose time is over ends here
    /// if no bounded sweep has reached it yet. So no reply confirms a hold after its deadline.
    pub(super) fn live_hold(&mut self, id: HolderId) -> Option<(usize, HoldState)> {
        let slot = self.record.hold_of(id)?;
        let now_us = self.now_us();
        let hold = &mut self.record.holds[slot];
        let (deadline_us, state) = (hold.clamp(now_us), hold.state);
        if deadline_us <= now_us {
            self.expire(slot);
            return None;
        }
        self.record.sweep.expect(slot, deadline_us);
        Some((slot, state))
    }

    /// The slot of a hold that its holder may still use, or the reply if there is none.
    pub(super) fn usable_hold(&mut self, id: HolderId) -> Result<usize, Reply> {
        match self.live_hold(id) {
            Some((slot, HoldState::Claimed | HoldState::Unclaimed)) => Ok(slot),
            Some((_, HoldState::Revoked)) => Err(Reply::Revoked(true)),
            Some((_, HoldState::Cooldown)) | None => Err(Reply::NotHeld { newest: self.newest() }),
        }
    }

    /// Ends a hold whose time is over. It leaves a tombstone, so that a late copy of the acquire is
    /// not granted to an attempt without a caller.
    pub(super) fn expire(&mut self, slot: usize) {
        if let Some(hold) = self.record.remove_hold(slot) {
            self.add_tombstone(hold.id);
        }
    }

    /// Adds a tombstone, so that a late copy of the attempt's request grants nothing.
    pub(super) fn add_tombstone(&mut self, id: HolderId) {
        self.bury(id, 0, false);
    }

    pub(super) fn bury(
        &mut self,
        HolderId { client, attempt }: HolderId,
        least_us: u64,
        revoked: bool,
    ) {
        if bugs::is_on(Bug::NoTombstone) {
            return;
        }
        let now_us = self.now_us();
        let until_us = least_us.max(now_us + micros(TOMBSTONE_LIFE));
        self.record.add_tombstone(Tombstone { client, attempt, until_us, revoked }, now_us);
        self.keep_until(until_us);
    }

    /// Confirms a hold for `ttl` from now. A deadline never moves back: the holder may rely on it.
    /// If the deadline stays, the ttl of the hold stays, too. With a shorter ttl, [`Hold::clamp`]
    /// would conclude that the clock went back. Then a late copy of a short renewal would end the
    /// hold.
    ///
    /// [`Hold::clamp`]: super::rows::Hold::clamp
    pub(super) fn confirm(&mut self, slot: usize, ttl: Duration) -> Grant {
        let deadline_us = self.now_us() + micros(ttl);
        let hold = &mut self.record.holds[slot];
        hold.state = HoldState::Claimed;
        if deadline_us > hold.deadline_us {
            hold.deadline_us = deadline_us;
            hold.ttl_us = micros(ttl);
        }
        let grant = self.unchanged(slot);
        self.record.sweep.longest_ttl_us = self.record.sweep.longest_ttl_us.max(micros(ttl));
        self.keep_until(grant.deadline_us);
        grant
    }

    /// The grant of a hold with its present deadline: a change of its facts does not move the
    /// deadline.
    pub(super) fn unchanged(&mut self, slot: usize) -> Grant {
        let contended = !self.record.queue.is_empty();
        let hold = &mut self.record.holds[slot];
        let token = FencingToken::from_micros(hold.token_us);
        Grant { token, deadline_us: hold.deadline_us, contended }
    }

    /// The time after which to ask again: the earliest hold may then end.
    pub(super) fn time_left(&self) -> Duration {
        if self.rules.held_back {
            return HELD_BACK_INTERVAL;
        }
        if self.rules.in_quarantine {
            return POLL_INTERVAL;
        }
        Duration::from_micros(self.record.sweep.bound_us.saturating_sub(self.now_us()))
    }
}
