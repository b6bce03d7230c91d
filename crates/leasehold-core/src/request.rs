//! The one vocabulary of model, stores and scripts: what is asked of a store and what it says.
//!
//! Later releases may add operations, actions, replies and messages. A store refuses a request that
//! it does not know with [`StoreError::unknown_request`](crate::StoreError::unknown_request). The
//! fields of a variant stay as they are, because a store that overlooked a new field would do
//! something else. So a request with other fields is another action.

mod names;
mod reply;

use std::time::Duration;

pub use self::reply::{Addressed, Answer, Cancelled, Grant, Message, Place, Refusal, Reply};
use crate::holder::{HolderId, HolderInfo, Mode};
use crate::name::LockName;
use crate::setters::setters;
use crate::token::FencingToken;

/// A store time that never comes, in the year 2255. It is the last one that all stores distinguish
/// from the one before, because Lua counts in doubles.
const FOREVER_US: u64 = (1 << 53) - 1;

/// What a store is asked to do, in one atomic step per name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Names that are held or awaited, or every name the store remembers.
    List {
        /// Only names that begin so.
        prefix: String,
        /// The most names to give.
        limit: u32,
        /// Also names that nobody holds or awaits.
        idle: bool,
    },
    /// Names that are held or awaited, some at a time: the answer is [`Reply::Page`].
    ListPage {
        /// Only names that begin so.
        prefix: String,
        /// Where the page before ended, as [`Page::next`](crate::Page::next) said; none for the
        /// first page.
        after: Option<String>,
        /// The most keys to pass, foreign keys included; up to as many again are read.
        keys: u32,
    },
    /// One action on one name.
    On {
        /// The name.
        name: LockName,
        /// What is done to its record.
        action: Action,
    },
    /// Renews many leases in one call; the answer is [`Reply::Many`], in the same order.
    Renew(Vec<RenewLease>),
}

impl Operation {
    /// Whether it changes nothing.
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
    /// The name that is held.
    pub name: LockName,
    /// Who holds it.
    pub id: HolderId,
    /// How much longer, from now.
    pub ttl: Duration,
    /// What its holder believes that it holds.
    pub mode: Mode,
    /// The number of the change that made it so: see [`Action::ChangeMode`].
    pub change: u64,
}

impl RenewLease {
    /// A lease that is held as it was granted.
    pub fn new(name: LockName, id: HolderId, ttl: Duration, mode: Mode) -> Self {
        Self { name, id, ttl, mode, change: 0 }
    }

    setters! {
        with_ttl: ttl: Duration,
        with_change: change: u64,
    }

    /// The renewal as an action on its name.
    pub const fn action(&self) -> Action {
        Action::Renew { id: self.id, ttl: self.ttl, mode: self.mode, change: self.change }
    }
}

/// What is done to one record. Every action is idempotent by attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Takes the lock, or joins its queue, or says that it is busy.
    Acquire(Acquire),
    /// Takes over the hold of a lease that was handed out.
    Adopt(Adopt),
    /// A waiter leaves. If it was granted meanwhile, the hold is released in the same step.
    Cancel {
        /// Which attempt ends.
        id: HolderId,
        /// Some copy of the acquire was never answered and may still arrive.
        unanswered: bool,
    },
    /// A reader becomes the writer, or a writer a reader.
    ///
    /// The holder numbers its changes, and a hold remembers the highest number that it was asked
    /// for. A change with a lower number is a late copy: [`Reply::Stale`], and nothing is changed.
    /// `Shared`, or for an upgradable reader `Upgradable`, with the number of an upgrade takes that
    /// upgrade back, whether it was granted or is still a wish; from then on the upgrade is a late
    /// copy, too.
    ///
    /// Without the numbers, a change that was given up could arrive after the upgrade that followed
    /// it. It would turn a writer into a reader, and the writer would never learn of it.
    ChangeMode {
        /// Which hold.
        id: HolderId,
        /// What it becomes: `Exclusive`, or a reader that takes no more than it does now.
        mode: Mode,
        /// The number of the change: the same for all copies of a request.
        change: u64,
    },
    /// Raises the token of a hold, and the name's last token with it, and moves the deadline to
    /// `ttl` from now: how the nodes of a quorum come to one token.
    ///
    /// This works only while the hold lives, as for [`Renew`](Self::Renew). [`Reply::Granted`] has
    /// the token of the hold afterwards. It is higher than `token` if the hold had a higher one
    /// before, because nothing ever lowers it. [`Refusal::Ballot`] as for [`Acquire::ballot_us`].
    Commit {
        /// Which hold.
        id: HolderId,
        /// Its token from now on.
        token: FencingToken,
        /// How much longer.
        ttl: Duration,
    },
    /// A holder changes its facts and label. If the lease was [passed on](crate::PassedOn) since, a
    /// late change by the holder before has no effect.
    Describe {
        /// Which hold.
        id: HolderId,
        /// What it says from now on.
        info: HolderInfo,
    },
    /// Says who holds, who waits and who held before; changes nothing.
    Inspect {
        /// The most holders to give, and the most waiters.
        limit: u32,
    },
    /// Confirms a grant, or keeps a waiter's place and says which it is. Never joins a queue, so a
    /// late poll cannot bring a cancelled waiter back.
    Poll {
        /// Which attempt asks. Its whole client counts as alive.
        id: HolderId,
        /// For how long a grant is confirmed.
        ttl: Duration,
    },
    /// Takes back, by its token, a hold that the store has forgotten or let run out.
    Reclaim(Reclaim),
    /// Ends a hold and hands the lock on in the same step.
    Release {
        /// Which hold.
        id: HolderId,
        /// How much longer the name stays taken, by nobody; zero for not at all.
        cooldown: Duration,
        /// Some copy of the acquire was never answered and may still arrive.
        unanswered: bool,
    },
    /// Moves the deadline of a hold to `ttl` from now, if that is later. It also says what its
    /// holder believes, so that both sides agree again at the next renewal.
    ///
    /// A holder that believes it is a reader is one from now on, upgradable or not. If a holder
    /// believes it is the writer and the record says reader, it gets [`Reply::NotHeld`]: the store
    /// has forgotten the upgrade. With a lower number than the hold's last change, it is a late
    /// copy and says nothing of the mode.
    Renew {
        /// Which hold.
        id: HolderId,
        /// How much longer.
        ttl: Duration,
        /// What its holder believes that it holds.
        mode: Mode,
        /// The number of the change that made it so, or 0: as it was granted.
        change: u64,
    },
    /// An operator ends the hold with exactly this token: at its deadline at the latest, or at
    /// once. If a lease was passed on, this is the token of the last holder that the store knows.
    /// It may also be a higher token of the same grant, because the store may learn of that holder
    /// later.
    Revoke {
        /// Which hold.
        id: HolderId,
        /// The token it was seen with.
        token: FencingToken,
        /// Now, even though its holder may still be at work.
        force: bool,
    },
    /// An operator changes the capacity of a semaphore that is in use: [`Reply::CapacitySet`].
    ///
    /// More permits are granted in the same step. With fewer, nothing is granted until the held
    /// permits fit. Until nobody holds or waits, requests for the old number and for the new one
    /// share this capacity.
    SetCapacity {
        /// How many permits there are from now on: at least one, and fewer than
        /// [`crate::LOCK_CAPACITY`].
        capacity: u32,
    },
}

impl Action {
    /// The request of an attempt to hold something, from now on or again.
    pub fn request(&self) -> Option<&Acquire> {
        match self {
            Self::Acquire(request) | Self::Reclaim(Reclaim { request, .. }) => Some(request),
            Self::Adopt(adopt) => Some(&adopt.request),
            Self::Cancel { .. }
            | Self::ChangeMode { .. }
            | Self::Commit { .. }
            | Self::Describe { .. }
            | Self::Inspect { .. }
            | Self::Poll { .. }
            | Self::Release { .. }
            | Self::Renew { .. }
            | Self::Revoke { .. }
            | Self::SetCapacity { .. } => None,
        }
    }

    /// The attempt that the action is about, if that belongs to the caller.
    pub fn holder(&self) -> Option<HolderId> {
        match self {
            Self::Cancel { id, .. }
            | Self::ChangeMode { id, .. }
            | Self::Commit { id, .. }
            | Self::Describe { id, .. }
            | Self::Poll { id, .. }
            | Self::Release { id, .. }
            | Self::Renew { id, .. } => Some(*id),
            Self::Acquire(_)
            | Self::Adopt(_)
            | Self::Inspect { .. }
            | Self::Reclaim(_)
            | Self::Revoke { .. }
            | Self::SetCapacity { .. } => self.request().map(|request| request.id),
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
            | Self::ChangeMode { .. }
            | Self::Describe { .. }
            | Self::Inspect { .. }
            | Self::Release { .. }
            | Self::Revoke { .. }
            | Self::SetCapacity { .. } => None,
        }
    }

    /// What the action's reply may give to a holder; nothing if the action only ends, shows or
    /// tells.
    pub fn effect(&self) -> Option<Effect> {
        match self {
            Self::Acquire(_) => Some(Effect::Grant),
            Self::Adopt(_) => Some(Effect::Adoption),
            Self::ChangeMode { .. } => Some(Effect::Mode),
            Self::Commit { .. } | Self::Renew { .. } => Some(Effect::Renewal),
            Self::Poll { .. } => Some(Effect::HandOver),
            Self::Reclaim(_) => Some(Effect::Reclaim),
            Self::Cancel { .. }
            | Self::Describe { .. }
            | Self::Inspect { .. }
            | Self::Release { .. }
            | Self::Revoke { .. }
            | Self::SetCapacity { .. } => None,
        }
    }
}

/// What the reply to an action may give to a holder. A store that must not give it yet, such as a
/// restarted one, knows by this what to hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// A lease that another holder has handed out.
    Adoption,
    /// A lease that nobody held: an acquire.
    Grant,
    /// A lease that was granted while it did not ask: a poll.
    HandOver,
    /// The lock alone, to a reader.
    Mode,
    /// A lease that it had and the server has forgotten.
    Reclaim,
    /// More time for a lease that it has: a renewal, a commit.
    Renewal,
}

impl Effect {
    /// Whether it gives a client something that the client did not have.
    pub fn is_new(self) -> bool {
        match self {
            Self::Adoption | Self::Grant | Self::HandOver | Self::Mode => true,
            Self::Reclaim | Self::Renewal => false,
        }
    }
}

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acquire {
    /// The acquire call, the same for each of its copies.
    pub id: HolderId,
    /// What to take.
    pub mode: Mode,
    /// How long the store is asked to keep it.
    pub ttl: Duration,
    /// Whether to join the queue if it cannot be had at once.
    pub wait: bool,
    /// A number only this attempt knows; a message without it is not believed.
    pub nonce: u64,
    /// The latest store time at which this copy may be executed. The store refuses a later copy, so
    /// it may forget tombstones after that time.
    pub not_after_us: u64,
    /// The token time that the caller proposes, where the store is one node of a quorum; `None`
    /// leaves it to the store's clock.
    ///
    /// The node grants with the highest of this, its last token + 1 and its clock −
    /// [`BALLOT_LEAD`]. So a caller with a slow clock is not refused, and a node that has forgotten
    /// the name grants no older token. A ballot that is more than
    /// [`BALLOT_LEAD`] above both the node's clock and its last token is refused with
    /// [`Refusal::Ballot`]. It counts for a grant at once, not for one out of the queue.
    ///
    /// [`BALLOT_LEAD`]: crate::model::BALLOT_LEAD
    pub ballot_us: Option<u64>,
    /// How long the record outlives this lease as it is granted or joins the queue, if that is
    /// longer than the [retention](crate::model::Rules::retention) of the store.
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

/// How a lease that was handed out as a value comes to one new holder.
///
/// [`Reply::Granted`]: the hold is that of [`request`](Self::request) from now on, with a new token
/// and, as by [`Action::Renew`], no earlier deadline. Later requests of [`from`](Self::from) do not
/// touch it any more. A renewal is [`Reply::NotHeld`] with the newer token, and late copies of the
/// acquire find that their attempt has ended. A copy of the adoption itself gives the same grant
/// again.
///
/// [`Reply::NotHeld`] if `from` does not hold it, or not with this mode and token: it has ended, or
/// somebody has adopted it before. A revoked hold answers [`Reply::Revoked`], a copy that is late
/// [`Reply::Late`], and [`Reply::Stale`] says that a new attempt is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopt {
    /// The holder that handed it out.
    pub from: HolderId,
    /// The token it was handed out with; `None` where the store is one node of a quorum, which may
    /// have granted it with another one than the quorum.
    pub token: Option<FencingToken>,
    /// The new attempt of the adopter, with the mode of the hold and how much longer it lasts. It
    /// never waits, and the record is kept for as long as the acquire of the lease asked for. A
    /// pointer, so that no other operation is as large as this rare one.
    pub request: Box<Acquire>,
}

impl Adopt {
    /// The adoption of the hold of `from`, with the attempt of `request`.
    pub fn new(from: HolderId, token: Option<FencingToken>, request: Acquire) -> Self {
        Self { from, token, request: Box::new(request) }
    }
}

/// How a holder takes back what its store has forgotten: after a restart, a flush, a failover.
///
/// The answer is [`Reply::Granted`] in two cases. *The hold is still in the record*, even past its
/// deadline, with the same mode. Then it has kept everybody else out, and goes on; a token below
/// the claimed one is raised to it, as by [`Action::Commit`]. If the record has only the reader of
/// a writer, it is the writer again if it is alone and its token is the highest. If the record has
/// the writer of a reader, it is a reader, as by [`Action::Renew`]. Or *the record knows nothing of
/// it*, nobody waits, and the request fits beside the present holds. For an exclusive lock, the
/// last token must also be below the claimed one. Then the store grants it again with its old
/// token.
///
/// Everything else is [`Reply::NotHeld`]. An equal last token without a hold means that the holder
/// let go; a higher one means that somebody came after. An attempt that was released, cancelled or
/// revoked stays over, and so does one whose end the store has noticed. The store does not compare
/// tokens of readers and permits: the first one to come back would lock out the rest.
///
/// A revoked hold answers [`Reply::Revoked`], a copy that is late [`Reply::Late`], a token far
/// ahead of the clock [`Refusal::Ballot`], and another capacity or weight as for an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaim {
    /// Its token.
    pub token: FencingToken,
    /// The number of the change that made it so, or 0: as it was granted.
    pub change: u64,
    /// The attempt that holds, with the mode of the hold and how much longer it lasts. It never
    /// waits and has no ballot. With the tombstone of the release, its `not_after` keeps a late
    /// copy from taking back what was let go.
    pub request: Acquire,
}

impl Reclaim {
    /// The claim of the hold with this token, with the attempt of `request`.
    pub fn new(token: FencingToken, change: u64, request: Acquire) -> Self {
        Self { token, change, request }
    }
}

#[cfg(test)]
mod tests;
