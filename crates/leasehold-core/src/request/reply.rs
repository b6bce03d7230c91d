//! The output of a store: the answer to a request, and messages to an inbox without a request.

use std::time::Duration;

use crate::holder::{ClientId, Status};
use crate::name::LockName;
use crate::page::Page;
use crate::setters::setters;
use crate::time::Now;
use crate::token::FencingToken;

/// The answer of a store to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The store's time of the step.
    pub now: Now,
    /// Whether a bound stopped the work: then ask again immediately. Every call makes progress.
    pub more: bool,
    /// The answer itself.
    pub reply: Reply,
}

impl Answer {
    /// A complete answer.
    pub fn new(now: Now, reply: Reply) -> Self {
        Self { now, more: false, reply }
    }

    setters! {
        with_more: more: bool,
    }
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The name is busy. The record is unchanged.
    ///
    /// As the answer to a renewal, it means that too few servers answered: the outcome is unknown.
    Busy {
        /// The time until the earliest hold ends, unless it is renewed.
        retry_after: Duration,
    },
    /// The attempt was cancelled, with this result.
    Cancelled(Cancelled),
    /// A poll's attempt neither holds nor waits: join again with a new attempt.
    Gone,
    /// The attempt holds the name.
    Granted(Grant),
    /// An acquire or an adoption came after its `not_after`; nothing was done.
    Late,
    /// One reply for each lease of a [`Operation::Renew`](super::Operation::Renew).
    Many(Vec<Reply>),
    /// The answer to [`Operation::List`](super::Operation::List).
    Names(Vec<LockName>),
    /// This attempt does not hold the name, or no longer does.
    NotHeld {
        /// The newest token of the name: a higher one means that there was a later holder.
        newest: Option<FencingToken>,
    },
    /// The answer to [`Operation::ListPage`](super::Operation::ListPage).
    Page(Page),
    /// The attempt waits in the queue.
    Queued(Place),
    /// The request was refused; nothing was changed.
    Refused(Refusal),
    /// The hold has ended.
    Released,
    /// Whether the revoked token was held. As the answer to a renewal, it means that an operator
    /// asks the holder to stop.
    Revoked(bool),
    /// This attempt has ended before: the request is a late copy, or needs a new number.
    Stale,
    /// The answer to [`Action::Inspect`](super::Action::Inspect).
    Status(Box<Status>),
}

/// A grant, as the holder receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The token of the grant.
    pub token: FencingToken,
    /// The time at which the store ends the hold, by its lease clock.
    pub deadline_us: u64,
    /// Whether somebody waits for the name.
    pub contended: bool,
}

impl Grant {
    /// The grant of a name that nobody waits for.
    pub const fn new(token: FencingToken, deadline_us: u64) -> Self {
        Self { token, deadline_us, contended: false }
    }

    setters! {
        with_contended: contended: bool,
    }
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The number drawn on joining: a client's waiters are served in this order.
    pub sequence: u64,
    /// The largest number of waiters that can be ahead.
    pub ahead: u32,
    /// The time after which to ask again.
    pub retry_after: Duration,
    /// The capacity in force, if the waiter asks for another one: then the waiter is granted once
    /// nobody holds.
    pub other_capacity: Option<u32>,
}

impl Place {
    /// A place behind at most `ahead` others.
    pub const fn new(sequence: u64, ahead: u32, retry_after: Duration) -> Self {
        Self { sequence, ahead, retry_after, other_capacity: None }
    }

    setters! {
        with_other_capacity: other_capacity: Option<u32>,
    }
}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// The attempt had been granted; the hold was released, and the next waiter served.
    Released,
    /// The attempt waited, and was removed from the queue.
    Removed,
    /// The attempt was not known; a late copy of its acquire will be refused.
    Unknown,
}

/// The reason for which a store refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The token that was proposed, committed or claimed is more than
    /// [`BALLOT_LEAD`](crate::model::BALLOT_LEAD) ahead of the store's clock and of the last token:
    /// one caller or node with a wrong clock must not spoil the tokens of all. The answer's `now`
    /// shows the store's time.
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
    /// An attempt was granted.
    Granted {
        /// The number of the attempt of this client.
        attempt: u64,
        /// The secret number of the attempt.
        nonce: u64,
        /// The token of the grant.
        token: FencingToken,
        /// The store's time of the grant.
        now_us: u64,
        /// The time by which the grant must be confirmed.
        deadline_us: u64,
    },
    /// An operator asks this attempt's holder to stop.
    Revoked {
        /// The number of the attempt of this client.
        attempt: u64,
        /// The secret number of the attempt.
        nonce: u64,
        /// The token of the hold.
        token: FencingToken,
        /// Whether the hold has ended already.
        forced: bool,
    },
}

/// A message, with the client whose inbox it is for.
pub type Addressed = (ClientId, Message);
