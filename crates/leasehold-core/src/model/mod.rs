//! The meaning of every action, written once: [`step`] takes a record, the store's time and an
//! action, changes the record and says what to reply and whom to tell.
//!
//! The memory store is this function behind a mutex, the file store is this function inside a
//! transaction, and the Redis scripts are a second implementation that is compared with it, record
//! by record. Each action has a file of its own here, and a script of the same name there.

mod acquire;
mod adopt;
mod cancel;
mod change_mode;
mod commit;
mod describe;
mod inspect;
mod poll;
mod promote;
mod reclaim;
mod record;
mod release;
mod renew;
mod revoke;
mod set_capacity;
mod sound;

use std::time::Duration;

pub use self::record::{Hold, Record, Seen, Sweep, Tombstone, Waiting};
use crate::holder::{ClientId, HoldState, HolderId};
use crate::request::{Action, Addressed, Grant, Reply};
use crate::time::{Now, micros};
use crate::token::{FencingToken, TOKEN_EPOCH_US};

/// How long a waiter that was granted has to confirm it: 2 s, or its ttl if that is less. Long
/// enough for a lost message and two polls, short enough that a dead waiter is a short wait.
pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);

/// Every waiter asks at least so often: half a claim window, so that a grant whose message was
/// lost is found in time. With slower polls, 10 % message loss cost live waiters their turn.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A client that was not seen for so long is dead, by the usual [`Rules`]: a claim window and one
/// poll.
pub const DEAD_AFTER: Duration = Duration::from_secs(3);

/// How long a finished attempt is remembered where a late copy of its acquire may still arrive:
/// 60 s, well above [`NOT_AFTER`].
pub const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

/// How long after it was sent an acquire may still be executed: 10 s.
pub const NOT_AFTER: Duration = Duration::from_secs(10);

/// How far the token time that a caller names may be ahead of the store's clock, and how far behind
/// it a token may be that is granted for it: 10 s, well above what clocks under NTP differ by.
///
/// A quorum's tokens stay in order beyond the memory of its nodes if the retention is longer than
/// twice this and the difference of their clocks together ([`LEAST_RETENTION`]).
pub const BALLOT_LEAD: Duration = Duration::from_secs(10);

/// How long the nodes of a quorum keep the last token of a name at least: 30 s. A token may be one
/// lead ahead of the node that gave it, the next is no more than one behind the node that gives
/// that, and nodes whose clocks are further apart than one do not believe each other's tokens.
pub const LEAST_RETENTION: Duration = BALLOT_LEAD.saturating_mul(3);

/// Most clients a record remembers finished attempts of; the oldest goes first.
pub const MAX_TOMBSTONES: usize = 64;

/// Most waiters of one name: 100 000, some 26 MB on a server.
pub const MAX_WAITING: usize = 100_000;

/// Most dead waiters skipped in one step.
pub const SKIP_BOUND: u32 = 16;

/// Most grants made by one step: publishing to 64 readers took 0.7 ms, to 16 it is kinder.
pub const GRANT_BOUND: u32 = 16;

/// Most holds looked at for expiry in one step.
pub const REAP_BOUND: u32 = 64;

/// How long a record outlives its last use, with the last token in it: 2 min. Ten thousand new
/// names a second then hold 240 MB, and would hold 7 GB with an hour.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(120);

/// What differs between stores. A retention alone stands for the rest as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a record outlives its last use.
    pub retention: Duration,
    /// The longest a waiter far behind may be silent: [`POLL_INTERVAL`], where a lost message and a
    /// death are found by polls alone.
    pub longest_silence: Duration,
}

impl Rules {
    /// Silent for so long, a client is dead: a claim window and one poll.
    fn dead_after(self) -> Duration {
        self.longest_silence + CLAIM_WINDOW
    }
}

impl From<Duration> for Rules {
    fn from(retention: Duration) -> Self {
        Self { retention, longest_silence: POLL_INTERVAL }
    }
}

/// What a step did, apart from changing the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The answer to whoever asked.
    pub reply: Reply,
    /// Whom else to tell.
    pub messages: Vec<Addressed>,
    /// A bound stopped the work: ask again at once.
    pub more: bool,
}

/// Applies one action to one record at the store's `now`.
///
/// An action that is refused, busy or late
/// leaves no trace but what time alone has done.
pub fn step(record: &mut Record, now: Now, rules: impl Into<Rules>, action: &Action) -> Outcome {
    let rules = rules.into();
    let mut step = Step { record, now, rules, messages: Vec::new(), more: false };
    let reply = match action {
        Action::Acquire(request) => step.acquire(request),
        Action::Adopt(request) => step.adopt(request),
        Action::Cancel { id, unanswered } => step.cancel(*id, *unanswered),
        Action::ChangeMode { id, mode, change } => step.change_mode(*id, *mode, *change),
        Action::Commit { id, token, ttl } => step.commit(*id, *token, *ttl),
        Action::Describe { id, facts } => step.describe(*id, facts),
        Action::Inspect { limit } => step.inspect(*limit),
        Action::Poll { id, ttl } => step.poll(*id, *ttl),
        Action::Reclaim(request) => step.reclaim(request),
        Action::Release { id, keep, unanswered } => step.release(*id, *keep, *unanswered),
        Action::Renew { id, ttl, mode, change } => step.renew(*id, *ttl, (*mode, *change)),
        Action::Revoke { id, token, force } => step.revoke(*id, *token, *force),
        Action::SetCapacity { capacity } => step.set_capacity(*capacity),
    };
    Outcome { reply, messages: step.messages, more: step.more }
}

/// Ends all holds and places of a client whose process is known to be dead, and hands them on.
pub fn bury(record: &mut Record, now: Now, rules: impl Into<Rules>, client: ClientId) -> Outcome {
    let rules = rules.into();
    let mut step = Step { record, now, rules, messages: Vec::new(), more: false };
    step.bury(client);
    Outcome { reply: Reply::Released, messages: step.messages, more: step.more }
}

/// One action under way.
struct Step<'a> {
    record: &'a mut Record,
    now: Now,
    rules: Rules,
    messages: Vec<Addressed>,
    more: bool,
}

impl Step<'_> {
    fn now_us(&self) -> u64 {
        self.now.lease_us
    }

    /// Keeps the record for the retention after `until_us`, with half a retention of slack so
    /// that not every step has to move the time.
    fn keep_until(&mut self, until_us: u64) {
        let retention = micros(self.rules.retention);
        let needed = until_us.max(self.now_us()) + retention;
        if self.record.collect_at_us < needed {
            self.record.collect_at_us = needed + retention / 2;
        }
    }

    /// The next token: the store's time, or the ballot of a caller who asks several stores.
    fn mint(&mut self, ballot_us: Option<u64>) -> u64 {
        // A clock that was never set, before the first token there is, would give one token twice.
        let least = (TOKEN_EPOCH_US + 1).max(self.record.last_token_us + 1);
        let now_us = self.now.token_us;
        let proposed_us = match ballot_us {
            // A store that has forgotten the name would grant what an earlier holder has had.
            Some(ballot_us) => ballot_us.max(now_us.saturating_sub(micros(BALLOT_LEAD))),
            None => now_us,
        };
        self.record.last_token_us = proposed_us.max(least);
        self.record.last_token_us
    }

    /// Whether a token time that a caller names would spoil the tokens of all who come after.
    fn is_too_far_ahead(&self, token_us: u64) -> bool {
        token_us > self.now.token_us.max(self.record.last_token_us) + micros(BALLOT_LEAD)
    }

    /// Raises the token of a hold, and the last token with it: nobody is granted a lower one here
    /// from now on, whoever it was committed for.
    fn raise_token(&mut self, index: usize, token_us: u64) {
        let hold = &mut self.record.holds[index];
        hold.token_us = hold.token_us.max(token_us);
        self.record.last_token_us = self.record.last_token_us.max(hold.token_us);
    }

    fn newest(&self) -> Option<FencingToken> {
        (self.record.last_token_us > 0).then(|| FencingToken::at_us(self.record.last_token_us))
    }

    /// The index of a hold whose time has not come. One that a bounded sweep has not reached yet
    /// ends here, so that nobody is told "yours" after the deadline.
    fn live_hold(&mut self, id: HolderId) -> Option<usize> {
        let index = self.record.hold_of(id)?;
        let now_us = self.now_us();
        let known_us = self.record.holds[index].deadline_us;
        let deadline_us = self.record.holds[index].clamp(now_us);
        if deadline_us <= now_us {
            self.expire(index);
            return None;
        }
        if deadline_us < known_us {
            self.record.sweep.expect(index, deadline_us);
        }
        Some(index)
    }

    /// Ends a hold whose time has come. A late copy of its acquire must not grant to an attempt
    /// that nobody waits for any more, hence the tombstone.
    fn expire(&mut self, index: usize) {
        let hold = self.record.remove_hold(index);
        self.bury_attempt(hold.id);
    }

    fn bury_attempt(&mut self, id: HolderId) {
        let until_us = self.now_us() + micros(TOMBSTONE_LIFE);
        self.record.add_tombstone(id, self.now_us(), until_us);
        self.keep_until(until_us);
    }

    /// Confirms a hold for `ttl` from now. A deadline never moves back: the holder may rely on it.
    /// The ttl stays with its deadline: a shorter one beside it would make [`Hold::clamp`] take
    /// the deadline for one of the future, and a late copy of a short renewal would end the hold.
    fn confirm(&mut self, index: usize, ttl: Duration) -> Grant {
        let deadline_us = self.now_us() + micros(ttl);
        let contended = !self.record.queue.is_empty();
        let hold = &mut self.record.holds[index];
        hold.state = HoldState::Claimed;
        if deadline_us > hold.deadline_us {
            hold.deadline_us = deadline_us;
            hold.ttl_us = micros(ttl);
        }
        let grant = Grant {
            token: FencingToken::at_us(hold.token_us),
            deadline_us: hold.deadline_us,
            contended,
        };
        self.record.sweep.longest_ttl_us = self.record.sweep.longest_ttl_us.max(micros(ttl));
        self.keep_until(grant.deadline_us);
        grant
    }

    /// When to ask again: the earliest hold may end, if it is one's turn then.
    fn time_left(&self) -> Duration {
        Duration::from_micros(self.record.sweep.bound_us.saturating_sub(self.now_us()))
    }
}

#[cfg(test)]
mod tests;
