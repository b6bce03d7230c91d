//! The common vocabulary of the model, the stores and the scripts: the requests to a store and its
//! replies.
//!
//! Later releases may add operations, actions, replies and messages. A store refuses a request that
//! it does not know with [`StoreError::unknown_request`](crate::StoreError::unknown_request). The
//! fields of a variant never change, because a store that overlooked a new field would do something
//! else. So a request with other fields is a new action.

mod reply;

use std::sync::Arc;
use std::time::Duration;

pub use self::reply::{Addressed, Answer, Grant, Message, Place, Refusal, Reply};
use crate::holder::{HolderId, HolderInfo, Mode};
use crate::name::LockName;
use crate::setters::setters;
use crate::token::FencingToken;

/// A request to a store. The request is one atomic step for each name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Keeps many leases in one call; the answer is [`Reply::Many`], in the same order.
    Keep(Vec<(LockName, Keep)>),
    /// Lists the names that are held or awaited, some at a time. The answer is [`Reply::Page`].
    List {
        /// The beginning of the names.
        prefix: String,
        /// The end of the page before, from [`Page::next`](crate::Page::next); `None` for the first
        /// page.
        after: Option<String>,
        /// The largest number of keys to scan, foreign keys included. The store also reads at most
        /// this number of keys.
        keys: u32,
    },
    /// One action on one name.
    On {
        /// The name.
        name: LockName,
        /// The action on its record.
        action: Action,
    },
}

impl Operation {
    /// The name of the operation without its object, such as `take` or `keep`: one of a few words,
    /// for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Keep(_) => "keep",
            Self::List { .. } => "list",
            Self::On { action, .. } => action.as_str(),
        }
    }

    /// The longest ttl that it asks for, if it asks for a lease.
    pub fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Keep(leases) => leases.iter().map(|(_, keep)| keep.ttl).max(),
            Self::List { .. } => None,
            Self::On { action, .. } => action.ttl(),
        }
    }

    /// Whether the operation changes nothing.
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::List { .. } | Self::On { action: Action::Look { .. }, .. })
    }
}

/// An action on one record. Every action is idempotent by attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Ends a hold or a wait, and grants the name to the next waiter in the same step. The answer
    /// is [`Reply::Ended`].
    End(End),
    /// Moves the deadline of a hold, claims a hold that was handed over, and says who holds. The
    /// answer is [`Reply::Kept`].
    Keep(Keep),
    /// Returns the holders, the waiters and the last holder; changes nothing.
    Look {
        /// The largest number of holders to return, and of waiters.
        limit: u32,
    },
    /// Ends a hold for an operator: at its deadline at the latest, or immediately. The answer is
    /// [`Reply::Ended`].
    Revoke {
        /// The attempt that holds.
        id: HolderId,
        /// Whether to end the hold immediately, even though its holder may still be at work.
        force: bool,
    },
    /// Takes the name, or joins its queue, or keeps a place there.
    Take(Take),
}

impl Action {
    /// The name of the action, such as `take`: one of a few words, for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::End(_) => "end",
            Self::Keep(_) => "keep",
            Self::Look { .. } => "look",
            Self::Revoke { .. } => "revoke",
            Self::Take(_) => "take",
        }
    }

    /// The attempt that the action is about, if it belongs to the caller.
    pub fn holder(&self) -> Option<HolderId> {
        match self {
            Self::End(End { request, .. })
            | Self::Keep(Keep { request, .. })
            | Self::Take(Take { request, .. }) => Some(request.id),
            Self::Look { .. } | Self::Revoke { .. } => None,
        }
    }

    /// The time for which the action asks the store to keep a lease.
    pub fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Keep(Keep { ttl, .. }) | Self::Take(Take { ttl, .. }) => Some(*ttl),
            Self::End(_) | Self::Look { .. } | Self::Revoke { .. } => None,
        }
    }
}

/// What every request of an attempt says about it. It is the same in all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Request {
    /// The acquire call, the same for each of its copies.
    pub id: HolderId,
    /// The mode to take.
    pub mode: Mode,
    /// The facts and the label of the caller, shared by all of its requests.
    pub info: Arc<HolderInfo>,
}

impl Request {
    /// The request of an attempt.
    pub fn new(id: HolderId, mode: Mode, info: impl Into<Arc<HolderInfo>>) -> Self {
        Self { id, mode, info: info.into() }
    }
}

/// The request to take a name.
///
/// A waiter takes again to keep its place, at the time that [`Place::retry_after`] says, and after
/// each message. The attempt that was granted gets the same grant again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Take {
    /// The attempt.
    pub request: Request,
    /// The time for which the store is asked to keep the lease.
    pub ttl: Duration,
    /// Whether to join the queue if the name cannot be granted immediately.
    pub waits: bool,
    /// The place that the attempt had, if it has waited before. So a waiter whose place was lost
    /// does not begin at the end.
    pub place: Option<u64>,
    /// The token time that the caller proposes (the *ballot*), if the store is one node of a
    /// quorum; `None` to use the store's clock.
    ///
    /// The node grants with the highest of three: this ballot, its counter + 1, and its clock −
    /// [`BALLOT_LEAD`]. So a caller with a slow clock is not refused, and a node that has forgotten
    /// its counter grants no older token. A ballot that is more than [`BALLOT_LEAD`] above both the
    /// node's clock and its counter is refused with [`Refusal::Ballot`]. The ballot only applies to
    /// a grant to the caller.
    ///
    /// [`BALLOT_LEAD`]: crate::model::BALLOT_LEAD
    pub ballot_us: Option<u64>,
    /// The attempt that handed its lease out as a value: the caller takes the lease over, with a
    /// new token. Only one caller succeeds. The answer to all others is [`Reply::Closed`] while the
    /// store remembers that, and [`Reply::NotHeld`] later.
    pub from: Option<HolderId>,
    /// The token of a lease of the caller that the store may have forgotten. A store in quarantine
    /// gives the lease back; the answer of any other store, or after a later holder, is
    /// [`Reply::NotHeld`].
    pub claim: Option<FencingToken>,
    /// The time in which one run that succeeds is enough: if one has begun less than that ago, the
    /// answer is [`Reply::Done`], and the caller has to end the attempt if it waited.
    pub once_per: Option<Duration>,
}

impl Take {
    /// A request that does not wait, and leaves the token to the store.
    pub fn new(request: Request, ttl: Duration) -> Self {
        let (place, ballot_us, from, claim, once_per) = (None, None, None, None, None);
        Self { request, ttl, waits: false, place, ballot_us, from, claim, once_per }
    }

    setters! {
        with_ttl: ttl: Duration,
        with_waits: waits: bool,
        with_place: place: Option<u64>,
        with_ballot: ballot_us: Option<u64>,
        with_from: from: Option<HolderId>,
        with_claim: claim: Option<FencingToken>,
        with_once_per: once_per: Option<Duration>,
    }
}

/// What the store says about a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The token of the grant.
    pub token: FencingToken,
    /// The facts about the holder.
    pub info: Arc<HolderInfo>,
}

impl Description {
    /// The description of a hold.
    pub fn new(token: FencingToken, info: impl Into<Arc<HolderInfo>>) -> Self {
        Self { token, info: info.into() }
    }
}

/// The request to keep a hold.
///
/// The deadline moves to `ttl` from now, if that is later. With a description, the token of the
/// hold is raised to the described one, and never lowered. By this, the nodes of a quorum agree on
/// one token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keep {
    /// The attempt that holds.
    pub request: Request,
    /// The ttl from now on.
    pub ttl: Duration,
    /// What the store says about the hold already, as far as the caller knows. A store may compare
    /// it in place of the attempt.
    pub known: Option<Box<Description>>,
    /// What the store should say about the hold from now on.
    pub description: Option<Box<Description>>,
}

impl Keep {
    /// A renewal.
    pub fn new(request: Request, ttl: Duration) -> Self {
        Self { request, ttl, known: None, description: None }
    }

    setters! {
        with_ttl: ttl: Duration,
        with_known: known: Option<Box<Description>>,
        with_description: description: Option<Box<Description>>,
    }
}

/// The request to end a hold or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// The attempt that holds or waits.
    pub request: Request,
    /// What the store says about the hold, as far as the caller knows. A store may compare it in
    /// place of the attempt.
    pub known: Option<Box<Description>>,
    /// Whether a copy of a request of this attempt may still arrive. Then the store remembers for a
    /// while that the attempt has ended.
    pub closes: bool,
    /// The time for which the name stays taken, by nobody, after the end; zero if the name is free
    /// immediately.
    pub cooldown: Duration,
    /// The time for which the store keeps that the run under this hold has succeeded; zero if it
    /// has not. A hold that is over, or was revoked, leaves nothing.
    pub done: Duration,
}

impl End {
    /// An end that leaves nothing.
    pub fn new(request: Request) -> Self {
        let (cooldown, done) = (Duration::ZERO, Duration::ZERO);
        Self { request, known: None, closes: false, cooldown, done }
    }

    setters! {
        with_known: known: Option<Box<Description>>,
        with_closes: closes: bool,
        with_cooldown: cooldown: Duration,
        with_done: done: Duration,
    }
}

#[cfg(test)]
mod tests;
