//! What every request means for the record of one name, written once: [`step`] takes the record,
//! the store's counter, its time and an action.
//!
//! A name that is free has no record. A name that is held and not awaited is a [`Gate`] alone. Only
//! a name that is awaited has a queue. Each action has a file here: a store in memory or in a file
//! is this function, and each script of a Redis store is a second implementation of one file.

mod action;
mod end;
mod keep;
mod look;
mod quick;
mod record;
mod revoke;
mod serve;
mod take;

pub(crate) use self::action::{Action, Description, End, Granted, Outcome, Refusal, Reply, Take};
pub(crate) use self::quick::{delete, set};
pub(crate) use self::record::{Gate, Hold, Record, State};
use leasehold_core::Now;

/// The times of the protocol, in milliseconds. Searches shorten them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// The time for which the record of an attempt that has ended is kept, so that a late copy of
    /// its request finds it.
    pub(crate) closed_ms: u64,
    /// The time for which a gate that somebody awaits outlives its deadline: longer than the time
    /// until the next waiter asks, so that no newcomer overtakes the queue.
    pub(crate) grace_ms: u64,
    /// A waiter asks at least once in this time.
    pub(crate) ask_ms: u64,
    /// The time for which a queue outlives its last change.
    pub(crate) queue_ms: u64,
    /// The time in which a grant that was handed over must be claimed.
    pub(crate) window_ms: u64,
}

impl Times {
    /// The times of every store.
    pub(crate) const REAL: Self = Self {
        closed_ms: 60_000,
        grace_ms: 5_000,
        ask_ms: 1_000,
        queue_ms: 60_000,
        window_ms: 2_000,
    };
}

/// What binds a store apart from the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) times: Times,
    /// The store may have forgotten leases: it grants nothing new, but gives leases back to those
    /// that can show their token.
    pub(crate) in_quarantine: bool,
}

impl Rules {
    pub(crate) const NORMAL: Self = Self { times: Times::REAL, in_quarantine: false };
}

/// The largest number of waiters, or of ended holds, that one step looks at. Then the step tells
/// the caller to ask again at once.
pub(crate) const BATCH: usize = 16;

/// How far a ballot may be ahead of a node's clock and counter. Without this limit, a caller with a
/// wrong clock would spoil the tokens of all. A token is behind the clock by no more, either.
const BALLOT_LEAD_US: u64 = 10_000_000;

/// The largest number of waiters of one name.
pub(crate) const MAX_WAITING: usize = 100_000;

/// The largest number of ended attempts that a record remembers; the oldest is forgotten first.
pub(crate) const MAX_CLOSED: usize = 64;

/// One action under way.
struct Step<'a> {
    record: &'a mut Record,
    counter: &'a mut u64,
    now: Now,
    rules: Rules,
    messages: Vec<Granted>,
}

/// Applies one action to the record of one name, and draws tokens from the counter.
///
/// The counter belongs to as many names as the store likes: a server, a slot of a cluster, one of
/// the buckets of a node. It never goes back, and whatever else happens to it, it is not behind the
/// clock of tokens once it was drawn from.
pub(crate) fn step(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    rules: Rules,
    action: &Action,
) -> Outcome {
    let mut step = Step { record, counter, now, rules, messages: Vec::new() };
    step.record.expire(step.now_ms());
    let reply = match action {
        Action::End(end) => step.end(end),
        Action::Keep { id, ttl_ms, description } => step.keep(*id, *ttl_ms, description.as_ref()),
        Action::Look { limit } => step.look(*limit),
        Action::Revoke { id, force } => step.revoke(*id, *force),
        Action::Take(take) => step.take(take),
    };
    let messages = step.messages;
    record.clean();
    Outcome { reply, messages }
}

impl Step<'_> {
    fn now_ms(&self) -> u64 {
        self.now.lease_us / 1_000
    }

    /// The next token, or the next place. A ballot is the token that a caller proposes to all nodes
    /// of a quorum: they grant no lower one.
    fn draw(&mut self, ballot: Option<u64>) -> u64 {
        let least = match ballot {
            Some(ballot) => ballot.max(self.now.token_us.saturating_sub(BALLOT_LEAD_US)),
            None => self.now.token_us,
        };
        *self.counter = (*self.counter + 1).max(least);
        *self.counter
    }
}
