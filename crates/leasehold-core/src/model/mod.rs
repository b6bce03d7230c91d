//! The meaning of every action, written once: [`step`] takes a record, the store's time and an
//! action. It changes the record, and returns the reply and the messages to send.
//!
//! The memory store is this function behind a mutex, and the file store is this function inside a
//! transaction. The Redis scripts are a second implementation; a test compares it with this one,
//! record by record. Each action has its own file here, and a script of the same name there.

mod acquire;
mod adopt;
mod apply;
mod bytes;
mod cancel;
mod commit;
mod describe;
mod inspect;
mod limits;
mod poll;
mod promote;
mod reap;
mod reclaim;
mod record;
mod release;
mod renew;
mod revoke;
mod rows;
mod sound;
mod step;

pub use self::apply::{Records, apply};
pub use self::bytes::UnreadableRecord;
pub use self::limits::{
    BALLOT_LEAD, CLAIM_WINDOW, DEAD_AFTER, GRANT_BOUND, HELD_BACK_INTERVAL, MAX_TOMBSTONES,
    MAX_WAITING, NOT_AFTER, POLL_INTERVAL, REAP_BOUND, RETENTION, Rules, SKIP_BOUND,
    TOMBSTONE_LIFE,
};
pub use self::record::Record;
pub use self::rows::{Hold, LastHold, Seen, Sweep, Tombstone, Waiting};
pub use self::step::Outcome;
use self::step::Step;
use crate::holder::ClientId;
use crate::request::{Action, Reply};
use crate::time::Now;

/// Applies one action to one record at the store's `now`.
///
/// An action that is refused, busy or late changes only what time alone changes.
///
/// # Cost
///
/// A bounded number of rows, whatever the number of holders and waiters; with [`Action::Inspect`],
/// also the rows that it lists.
pub fn step(record: &mut Record, now: Now, rules: Rules, action: &Action) -> Outcome {
    let mut step = Step::new(record, now, rules);
    let reply = match action {
        Action::Acquire(request) => step.acquire(request),
        Action::Adopt(request) => step.adopt(request),
        Action::Cancel { id, unanswered } => step.cancel(*id, *unanswered),
        Action::Commit { id, token, ttl } => step.commit(*id, *token, *ttl),
        Action::Describe { id, info } => step.describe(*id, info),
        Action::Inspect { limit } => step.inspect(*limit),
        Action::Poll { id, ttl } => step.poll(*id, *ttl),
        Action::Reclaim(request) => step.reclaim(request),
        Action::Release { id, cooldown, unanswered } => step.release(*id, *cooldown, *unanswered),
        Action::Renew { id, ttl } => step.renew(*id, *ttl),
        Action::Revoke { id, token, force } => step.revoke(*id, *token, *force),
    };
    step.outcome(reply)
}

/// Ends all holds and places of a client whose process is known to be dead, and grants what becomes
/// free to the next waiters.
///
/// # Cost
///
/// The rows of that client, and the rows of a step.
pub fn reap(record: &mut Record, now: Now, rules: Rules, client: ClientId) -> Outcome {
    let mut step = Step::new(record, now, rules);
    step.reap(client);
    step.outcome(Reply::Released)
}

#[cfg(test)]
mod tests;
