//! The common vocabulary of the model, the stores and the scripts: the requests to a store and its
//! replies.
//!
//! Later releases may add operations, actions, replies and messages. A store refuses a request that
//! it does not know with [`StoreError::unknown_request`](crate::StoreError::unknown_request). The
//! fields of a variant never change, because a store that overlooked a new field would do something
//! else. So a request with other fields is a new action.

mod names;
mod reply;

use std::time::Duration;

pub use self::reply::{Addressed, Answer, Cancelled, Grant, Message, Place, Refusal, Reply};
use crate::holder::{HolderId, HolderInfo, Mode};
use crate::name::LockName;
use crate::setters::setters;
use crate::token::FencingToken;

/// A store time that never comes, in the year 2255. It is the last time that all stores can
/// represent exactly, because Lua counts in doubles.
const FOREVER_US: u64 = (1 << 53) - 1;

/// A request to a store. The request is one atomic step for each name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Lists the names that are held or awaited.
    List {
        /// The beginning of the names.
        prefix: String,
        /// The largest number of names to return.
        limit: u32,
    },
    /// Lists the names that are held or awaited, some at a time. The answer is [`Reply::Page`].
    ListPage {
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
    /// Renews many leases in one call; the answer is [`Reply::Many`], in the same order.
    Renew(Vec<RenewLease>),
}

impl Operation {
    /// Whether the operation changes nothing.
    pub const fn is_read_only(&self) -> bool {
        matches!(
            self,
            Self::List { .. }
                | Self::ListPage { .. }
                | Self::On { action: Action::Inspect { .. }, .. }
        )
    }
}

/// One lease to renew.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenewLease {
    /// The name of the lock.
    pub name: LockName,
    /// The attempt that holds the name.
    pub id: HolderId,
    /// The ttl from now on.
    pub ttl: Duration,
}

impl RenewLease {
    /// A renewal of this lease.
    pub fn new(name: LockName, id: HolderId, ttl: Duration) -> Self {
        Self { name, id, ttl }
    }

    setters! {
        with_ttl: ttl: Duration,
    }

    /// The renewal as an action on its name.
    pub const fn action(&self) -> Action {
        Action::Renew { id: self.id, ttl: self.ttl }
    }
}

/// An action on one record. Every action is idempotent by attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Takes the lock, or joins its queue, or replies that it is busy.
    Acquire(Acquire),
    /// Takes over the hold of a lease that was handed out.
    Adopt(Adopt),
    /// Removes a waiter. If it was granted meanwhile, the hold is released in the same step.
    Cancel {
        /// The attempt that ends.
        id: HolderId,
        /// Whether a copy of the acquire was never answered and may still arrive.
        unanswered: bool,
    },
    /// Raises the token of a hold, and the name's last token with it, and moves the deadline to
    /// `ttl` from now. By this, the nodes of a quorum agree on one token.
    ///
    /// This works only while the hold lives, like [`Renew`](Self::Renew). [`Reply::Granted`] has
    /// the token of the hold afterwards. If the hold had a higher token than `token` before, it
    /// keeps the higher one, because nothing ever lowers a token. [`Refusal::Ballot`] is possible,
    /// as for [`Acquire::ballot_us`].
    Commit {
        /// The attempt that holds.
        id: HolderId,
        /// The token of the hold from now on.
        token: FencingToken,
        /// The ttl from now on.
        ttl: Duration,
    },
    /// Changes the facts and the label of a holder. If the lease was [passed on](crate::PassedOn)
    /// since, a late change by the former holder has no effect.
    Describe {
        /// The attempt that holds.
        id: HolderId,
        /// The facts from now on.
        info: HolderInfo,
    },
    /// Returns the holders, the waiters and the last holder; changes nothing.
    Inspect {
        /// The largest number of holders to return, and of waiters.
        limit: u32,
    },
    /// Confirms a grant, or keeps a waiter's place and returns it. It never joins a queue, so a
    /// late poll cannot bring a cancelled waiter back.
    Poll {
        /// The attempt that asks. Its whole client counts as alive.
        id: HolderId,
        /// The ttl for which a grant is confirmed.
        ttl: Duration,
    },
    /// Takes back a hold, by its token, after the store has forgotten the hold or let it run out.
    Reclaim(Reclaim),
    /// Ends a hold and grants the lock to the next waiter in the same step.
    Release {
        /// The attempt that holds.
        id: HolderId,
        /// The time for which the name stays taken, by nobody, after the release; zero if the name
        /// is free immediately.
        cooldown: Duration,
        /// Whether a copy of the acquire was never answered and may still arrive.
        unanswered: bool,
    },
    /// Moves the deadline of a hold to `ttl` from now, if that is later.
    Renew {
        /// The attempt that holds.
        id: HolderId,
        /// The ttl from now on.
        ttl: Duration,
    },
    /// Ends the hold with exactly this token, for an operator: at its deadline at the latest, or
    /// immediately. If a lease was passed on, this is the token of the last holder that was
    /// reported to the store. A higher token of the same grant is also possible, because its holder
    /// may be reported to the store later.
    Revoke {
        /// The attempt that holds.
        id: HolderId,
        /// The token with which the operator has seen the hold.
        token: FencingToken,
        /// Whether to end the hold immediately, even though its holder may still be at work.
        force: bool,
    },
}

impl Action {
    /// The request of the attempt, if the action is an attempt to get a hold, or to get one again.
    pub fn request(&self) -> Option<&Acquire> {
        match self {
            Self::Acquire(request) | Self::Reclaim(Reclaim { request, .. }) => Some(request),
            Self::Adopt(adopt) => Some(&adopt.request),
            Self::Cancel { .. }
            | Self::Commit { .. }
            | Self::Describe { .. }
            | Self::Inspect { .. }
            | Self::Poll { .. }
            | Self::Release { .. }
            | Self::Renew { .. }
            | Self::Revoke { .. } => None,
        }
    }

    /// The attempt that the action is about, if it belongs to the caller.
    pub fn holder(&self) -> Option<HolderId> {
        match self {
            Self::Cancel { id, .. }
            | Self::Commit { id, .. }
            | Self::Describe { id, .. }
            | Self::Poll { id, .. }
            | Self::Release { id, .. }
            | Self::Renew { id, .. } => Some(*id),
            Self::Acquire(_)
            | Self::Adopt(_)
            | Self::Inspect { .. }
            | Self::Reclaim(_)
            | Self::Revoke { .. } => self.request().map(|request| request.id),
        }
    }

    /// The time for which the action asks the store to keep a lease.
    pub fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Commit { ttl, .. } | Self::Poll { ttl, .. } | Self::Renew { ttl, .. } => {
                Some(*ttl)
            }
            Self::Acquire(_) | Self::Adopt(_) | Self::Reclaim(_) => {
                self.request().map(|request| request.ttl)
            }
            Self::Cancel { .. }
            | Self::Describe { .. }
            | Self::Inspect { .. }
            | Self::Release { .. }
            | Self::Revoke { .. } => None,
        }
    }

    /// The effect that the action's reply may have for a holder; `None` if the action only ends,
    /// shows or describes a hold.
    pub fn effect(&self) -> Option<Effect> {
        match self {
            Self::Acquire(_) => Some(Effect::Grant),
            Self::Adopt(_) => Some(Effect::Adoption),
            Self::Commit { .. } | Self::Renew { .. } => Some(Effect::Renewal),
            Self::Poll { .. } => Some(Effect::HandOver),
            Self::Reclaim(_) => Some(Effect::Reclaim),
            Self::Cancel { .. }
            | Self::Describe { .. }
            | Self::Inspect { .. }
            | Self::Release { .. }
            | Self::Revoke { .. } => None,
        }
    }
}

/// The effect that the reply to an action may have for a holder. From the effect, a store that must
/// not grant anything yet, such as a restarted one, knows which replies to hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The holder gets a lease that another holder has handed out.
    Adoption,
    /// The holder gets a lease that nobody held, by an acquire.
    Grant,
    /// The holder gets a lease that was granted while it waited, by a poll.
    HandOver,
    /// The holder gets back a lease that it had before the server forgot it.
    Reclaim,
    /// The holder gets more time for its lease, by a renewal or a commit.
    Renewal,
}

impl Effect {
    /// Whether the effect gives a client a lease that it did not have.
    pub fn is_new(self) -> bool {
        match self {
            Self::Adoption | Self::Grant | Self::HandOver => true,
            Self::Reclaim | Self::Renewal => false,
        }
    }
}

/// The request of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acquire {
    /// The acquire call, the same for each of its copies.
    pub id: HolderId,
    /// The mode to take.
    pub mode: Mode,
    /// The time for which the store is asked to keep the lease.
    pub ttl: Duration,
    /// Whether to join the queue if the lock cannot be granted immediately.
    pub wait: bool,
    /// The secret number of this attempt. A message without it does not count.
    pub nonce: u64,
    /// The latest store time at which this copy may be executed. The store refuses a later copy, so
    /// it may forget tombstones after that time.
    pub not_after_us: u64,
    /// The token time that the caller proposes (the *ballot*), if the store is one node of a
    /// quorum; `None` to use the store's clock.
    ///
    /// The node grants with the highest of three: this ballot, its last token + 1, and its clock −
    /// [`BALLOT_LEAD`]. So a caller with a slow clock is not refused, and a node that has forgotten
    /// the name grants no older token. A ballot that is more than [`BALLOT_LEAD`] above both the
    /// node's clock and its last token is refused with [`Refusal::Ballot`]. The ballot only applies
    /// to an immediate grant, not to a grant from the queue.
    ///
    /// [`BALLOT_LEAD`]: crate::model::BALLOT_LEAD
    pub ballot_us: Option<u64>,
    /// The time for which the record is kept, from the grant or the joining on, if that is longer
    /// than the [retention](crate::model::RETENTION) of the store.
    pub remember: Duration,
    /// The facts and the label of the caller.
    pub info: HolderInfo,
}

impl Acquire {
    /// A request that does not wait, may be executed at any time and leaves the token to the store.
    pub fn new(id: HolderId, mode: Mode, ttl: Duration) -> Self {
        Self {
            id,
            mode,
            ttl,
            wait: false,
            nonce: 0,
            not_after_us: FOREVER_US,
            ballot_us: None,
            remember: Duration::ZERO,
            info: HolderInfo::default(),
        }
    }

    setters! {
        with_ttl: ttl: Duration,
        with_wait: wait: bool,
        with_nonce: nonce: u64,
        with_not_after: not_after_us: u64,
        with_ballot: ballot_us: Option<u64>,
        with_remember: remember: Duration,
        with_info: info: HolderInfo,
    }
}

/// The request to take over a lease that was handed out as a value. Only one new holder gets the
/// lease.
///
/// [`Reply::Granted`] means that, from now on, the hold belongs to [`request`](Self::request), with
/// a new token. As with [`Action::Renew`], its deadline does not get earlier. Later requests of the
/// holder [`from`](Self::from) do not affect the hold any more. Renewals of that holder get
/// [`Reply::NotHeld`] with the newer token, and late copies of its acquire find that their attempt
/// has ended. A copy of the adoption itself gets the same grant again.
///
/// The reply is [`Reply::NotHeld`] if `from` does not hold the lease, or not with this mode and
/// token: the lease has ended, or somebody has adopted it before. The reply for a revoked hold is
/// [`Reply::Revoked`], and for a late request [`Reply::Late`]. [`Reply::Stale`] means that a new
/// attempt is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopt {
    /// The holder that handed the lease out.
    pub from: HolderId,
    /// The token with which the lease was handed out. `None` if the store is one node of a quorum:
    /// the node may have granted another token than the quorum's.
    pub token: Option<FencingToken>,
    /// The new attempt of the adopter, with the mode of the hold and its new ttl. The attempt never
    /// waits, and the record is kept for as long as the acquire of the lease asked for. The field
    /// is boxed, so that this rare action does not make all operations larger.
    pub request: Box<Acquire>,
}

impl Adopt {
    /// The adoption of the hold of `from`, with the attempt of `request`.
    pub fn new(from: HolderId, token: Option<FencingToken>, request: Acquire) -> Self {
        Self { from, token, request: Box::new(request) }
    }
}

/// The request to take back a lease that the store has forgotten: after a restart, a flush or a
/// failover.
///
/// The answer is [`Reply::Granted`] in two cases. In the first case, *the hold is still in the
/// record*, even past its deadline, with the same mode. Then the hold has kept everybody else out,
/// and continues. If its token is below the claimed one, it is raised to the claimed one, as by
/// [`Action::Commit`]. In the second case, *the record has nothing of the hold*, nobody waits, and
/// the request fits in addition to the present holds. For an exclusive lock, the last token must
/// also be below the claimed one. Then the store grants the hold again with its old token.
///
/// In all other cases the reply is [`Reply::NotHeld`]. An equal last token without a hold means
/// that the holder released; a higher one means that there was a later holder. An attempt that was
/// released, cancelled or revoked cannot come back, and neither can one whose end the store has
/// noticed. The store does not compare tokens of readers and permits: the first reader to come back
/// would lock out the others.
///
/// The reply for a revoked hold is [`Reply::Revoked`], for a late request [`Reply::Late`], and for
/// a token far ahead of the clock [`Refusal::Ballot`]. Another capacity or weight gets the same
/// reply as for an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaim {
    /// The token of the claimed hold.
    pub token: FencingToken,
    /// The attempt that holds, with the mode of the hold and its new ttl. The request never waits
    /// and has no ballot. Its `not_after` and the tombstone of the release keep a late copy of it
    /// from taking a released lease back.
    pub request: Acquire,
}

impl Reclaim {
    /// The claim of the hold with this token, with the attempt of `request`.
    pub fn new(token: FencingToken, request: Acquire) -> Self {
        Self { token, request }
    }
}

#[cfg(test)]
mod tests;
