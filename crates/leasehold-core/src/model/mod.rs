//! What every request means for the record of one name, written once: [`step`] takes the record,
//! the store's counter, its time and an action. It changes the record, and returns the reply and
//! the messages to send.
//!
//! A name that is free has no record. A name that is held and not awaited is a [`Gate`] alone. Only
//! a name that is awaited has a queue.
//!
//! The memory store is this function behind a mutex, and the file store is this function inside a
//! transaction. The Redis scripts are a second implementation: each action has a file here, and a
//! script of the same name there, and a test compares them.

mod apply;
mod end;
mod keep;
mod limits;
mod look;
mod reap;
mod record;
mod revoke;
mod serve;
mod take;
pub mod text;

pub use self::apply::{Outcome, Records, apply};
pub use self::limits::{
    ASK_INTERVAL, BALLOT_LEAD, BATCH, CLAIM_WINDOW, MAX_CLOSED, MAX_WAITING, Rules, Times,
};
pub use self::reap::reap;
pub use self::record::{Gate, Hold, Last, Record, Share, State, Waiter};
pub use self::text::UnreadableRecord;
use crate::bugs::{self, Bug};
use crate::request::{Action, Addressed, Reply};
use crate::time::{Now, micros};

/// One action under way.
struct Step<'a> {
    record: &'a mut Record,
    counter: &'a mut u64,
    now: Now,
    rules: Rules,
    messages: Vec<Addressed>,
}

/// Applies one action to the record of one name, and draws tokens from the counter.
///
/// The counter belongs to as many names as the store likes: a server, a slot of a cluster, one of
/// the buckets of a node. It never goes back. Whatever else happens to it, it is not behind the
/// clock of tokens once it was drawn from.
///
/// # Cost
///
/// A bounded number of waiters and holds, whatever their number in the record; with
/// [`Action::Look`], also those that it lists.
pub fn step(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    rules: Rules,
    action: &Action,
) -> Outcome {
    Step::of(record, counter, now, rules, |step| match action {
        Action::End(end) => step.end(end),
        Action::Keep(keep) => step.keep(keep),
        Action::Look { limit } => step.look(*limit),
        Action::Revoke { id, force } => step.revoke(*id, *force),
        Action::Take(take) => step.take(take),
    })
}

impl Step<'_> {
    fn of(
        record: &mut Record,
        counter: &mut u64,
        now: Now,
        rules: Rules,
        work: impl FnOnce(&mut Step<'_>) -> Reply,
    ) -> Outcome {
        record.expire(now);
        let mut step = Step { record, counter, now, rules, messages: Vec::new() };
        let reply = work(&mut step);
        let messages = step.messages;
        record.clean();
        Outcome { reply, messages }
    }

    fn now_ms(&self) -> u64 {
        self.now.lease_us / 1_000
    }

    /// The next token, or the next place. A ballot is the token that a caller proposes to all nodes
    /// of a quorum: they grant no lower one.
    fn draw(&mut self, ballot: Option<u64>) -> u64 {
        let now_us = if bugs::is_on(Bug::CountedToken) { 0 } else { self.now.token_us };
        let least = match ballot {
            // Without this bound, a node that has forgotten its counter could grant a token that an
            // earlier holder has had.
            Some(ballot) => ballot.max(now_us.saturating_sub(micros(BALLOT_LEAD))),
            None => now_us,
        };
        *self.counter = (*self.counter + 1).max(least);
        *self.counter
    }

    /// Whether a token, if there is one, would spoil all later tokens.
    fn is_too_far_ahead(&self, token_us: Option<u64>) -> bool {
        let most_us = self.now.token_us.max(*self.counter).saturating_add(micros(BALLOT_LEAD));
        token_us.is_some_and(|token_us| token_us > most_us)
    }
}
