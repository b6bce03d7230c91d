//! The output of a store: the answer to a request, and messages to an inbox without a request.

use std::time::Duration;

use crate::holder::{ClientId, LastHolder, Status};
use crate::page::Page;
use crate::setters::setters;
use crate::time::Now;
use crate::token::FencingToken;

/// The answer of a store to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The store's time of the step, if the answer says it. The answer [`Reply::Queued`] always
    /// does: the time in a later message is understood by it.
    pub now: Option<Now>,
    /// The answer itself.
    pub reply: Reply,
}

impl Answer {
    /// An answer with the store's time.
    pub fn new(now: Now, reply: Reply) -> Self {
        Self { now: Some(now), reply }
    }

    /// An answer that does not say when it was given.
    pub fn untimed(reply: Reply) -> Self {
        Self { now: None, reply }
    }
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The name is busy.
    ///
    /// As the answer to a renewal, it means that too few servers answered: the outcome is unknown.
    Busy {
        /// The time until the earliest hold ends, unless it is renewed.
        retry_after: Duration,
    },
    /// This attempt has ended: a request came late, or the caller needs a new attempt.
    Closed,
    /// A run has succeeded that began less than [`once_per`](super::Take::once_per) ago.
    Done {
        /// That run.
        last: Box<LastHolder>,
        /// The time until a run may begin again.
        next_in: Duration,
    },
    /// Whether there was a hold or a wait to end.
    Ended(bool),
    /// The attempt holds the name.
    Granted(Grant),
    /// The hold is kept for the ttl.
    Kept {
        /// Whether somebody waits for the name, as far as the store knows.
        contended: bool,
    },
    /// One reply for each lease of an [`Operation::Keep`](super::Operation::Keep).
    Many(Vec<Reply>),
    /// This attempt does not hold the name, or no longer does.
    NotHeld,
    /// The answer to [`Operation::List`](super::Operation::List).
    Page(Page),
    /// The attempt waits in the queue.
    Queued(Place),
    /// The request was refused; nothing was changed.
    Refused(Refusal),
    /// An operator asks the holder to stop, or has ended the hold.
    Revoked,
    /// The answer to [`Action::Look`](super::Action::Look).
    Status(Box<Status>),
}

/// A grant, as the holder receives it. It lasts for the ttl that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The token of the grant.
    pub token: FencingToken,
    /// Whether the store says who holds: otherwise the holder describes its hold later.
    pub described: bool,
}

impl Grant {
    /// The grant of a hold whose holder the store shows already.
    pub const fn new(token: FencingToken) -> Self {
        Self { token, described: true }
    }

    setters! {
        with_described: described: bool,
    }
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The number drawn on joining: waiters are served in this order.
    pub sequence: u64,
    /// The number of waiters that are ahead.
    pub ahead: u32,
    /// The time after which to ask again at the latest.
    pub retry_after: Duration,
    /// The capacity in force, if the waiter asks for another one: then the waiter is granted once
    /// nobody holds.
    pub other_capacity: Option<u32>,
}

impl Place {
    /// A place behind `ahead` others.
    pub const fn new(sequence: u64, ahead: u32, retry_after: Duration) -> Self {
        Self { sequence, ahead, retry_after, other_capacity: None }
    }

    setters! {
        with_other_capacity: other_capacity: Option<u32>,
    }
}

/// The reason for which a store refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The token that was proposed or described is more than
    /// [`BALLOT_LEAD`](crate::model::BALLOT_LEAD) ahead of the store's clock and of its counter:
    /// one caller or node with a wrong clock must not spoil the tokens of all.
    Ballot,
    /// The record is damaged, and was left as it is: nobody holds, takes or renews the name until
    /// an operator has deleted the record.
    Damaged,
    /// The name is held or awaited with another capacity (a lock has [`crate::LOCK_CAPACITY`]), or
    /// as a semaphore instead of a lock, or the other way round.
    Mismatch {
        /// The capacity in force.
        capacity: u32,
    },
    /// The queue is full.
    QueueFull,
    /// The record was written by another release of leasehold, in a version that this release does
    /// not understand.
    Version {
        /// The version found.
        found: u32,
    },
    /// The request is for more permits than there are.
    Weight,
}

/// A message in a client's inbox. It is always a hint: nothing depends on its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Messages may have been lost: ask the store about every attempt and hold again.
    Gap,
    /// An attempt was granted. It has to claim its hold within the
    /// [window](crate::model::CLAIM_WINDOW), by keeping it.
    Granted {
        /// The number of the attempt of this client.
        attempt: u64,
        /// The token of the grant.
        token: FencingToken,
        /// The store's time of the grant, when the window begins.
        now_us: u64,
    },
    /// An operator asks this attempt's holder to stop.
    Revoked {
        /// The number of the attempt of this client.
        attempt: u64,
        /// Whether the hold has ended already.
        forced: bool,
    },
}

/// A message, with the client whose inbox it is for.
pub type Addressed = (ClientId, Message);
