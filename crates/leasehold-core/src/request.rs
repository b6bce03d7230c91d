//! The one vocabulary of model, stores and scripts: what is asked of a store and what it says.
//!
//! Later releases may add operations, actions, replies and messages. A store refuses a request that
//! it does not know with [`StoreError::unknown_request`](crate::StoreError::unknown_request). The
//! fields of a variant stay as they are: a store that overlooked a new one would do something else
//! than it was asked for, so a request with other fields is another action.

use std::time::Duration;

use crate::holder::{ClientId, HolderId, HolderInfo, Mode, Status};
use crate::name::LockName;
use crate::setters::setters;
use crate::time::Now;
use crate::token::FencingToken;

/// A store time that never comes, in the year 2255: the last that all stores can tell apart from
/// the one before, for Lua counts in doubles.
const FOREVER_US: u64 = (1 << 53) - 1;

/// What a store is asked to do, in one atomic step per name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Names that are held or awaited, or every name the store remembers.
    List {
        /// Only names that begin so.
        prefix: String,
        /// At most so many.
        limit: u32,
        /// Also names that nobody holds or awaits.
        idle: bool,
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
        matches!(self, Self::List { .. } | Self::On { action: Action::Inspect { .. }, .. })
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
    /// for. A lower one is a late copy: [`Reply::Stale`], and nothing is changed. `Shared`, or for
    /// an upgradable reader `Upgradable`, with the number of an upgrade takes that upgrade back,
    /// whether it was granted or is still a wish; from then on the upgrade is a late copy, too.
    ///
    /// Without the numbers, a wish that was given up could arrive after the upgrade that followed
    /// it, and make a reader of a writer who never learns of it.
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
    /// Only while the hold lives, as for [`Renew`](Self::Renew). [`Reply::Granted`] says the token
    /// the hold has then: a higher one than `token` if it had that already, for nothing ever
    /// lowers it. [`Refusal::Ballot`] as for [`Acquire::ballot_us`].
    Commit {
        /// Which hold.
        id: HolderId,
        /// Its token from now on.
        token: FencingToken,
        /// How much longer.
        ttl: Duration,
    },
    /// A holder changes what it says of itself.
    Describe {
        /// Which hold.
        id: HolderId,
        /// What it says from now on.
        info: HolderInfo,
    },
    /// Says who holds and who waits; changes nothing.
    Inspect {
        /// At most so many holders, and so many waiters.
        limit: u32,
    },
    /// Confirms a grant, or keeps a waiter's place and says what it is. Never joins a queue, so
    /// that a late poll cannot bring a cancelled waiter back.
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
        keep: Duration,
        /// Some copy of the acquire was never answered and may still arrive.
        unanswered: bool,
    },
    /// Moves the deadline of a hold to `ttl` from now, if that is later, and says what its holder
    /// believes to hold, so that the two cannot disagree for longer than until the next renewal.
    ///
    /// A holder that believes to be a reader is one from now on, upgradable or not. One that
    /// believes to be the writer where it is a reader is told [`Reply::NotHeld`]: the store has
    /// forgotten that it became the writer. With a lower number than the hold's last change, it is
    /// a late copy and says nothing of the mode.
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
    /// An operator ends the hold with this very token: at the latest by its deadline, or at once.
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
    /// More permits are granted in the same step; with fewer, nothing is granted until what is held
    /// fits. It stands for what was asked for until nobody holds or waits any more, so that
    /// requests for the old number and for the new one share it.
    SetCapacity {
        /// How many permits there are from now on: at least one, and fewer than
        /// [`crate::LOCK_CAPACITY`].
        capacity: u32,
    },
}

impl Action {
    /// The attempt that it is about, if that is its own caller's.
    pub fn holder(&self) -> Option<HolderId> {
        match self {
            Self::Acquire(request) => Some(request.id),
            Self::Adopt(request) => Some(request.id),
            Self::Reclaim(request) => Some(request.id),
            Self::Cancel { id, .. }
            | Self::ChangeMode { id, .. }
            | Self::Commit { id, .. }
            | Self::Describe { id, .. }
            | Self::Poll { id, .. }
            | Self::Release { id, .. }
            | Self::Renew { id, .. } => Some(*id),
            Self::Inspect { .. } | Self::Revoke { .. } | Self::SetCapacity { .. } => None,
        }
    }

    /// For how long it asks the store to keep a lease.
    pub fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Acquire(request) => Some(request.ttl),
            Self::Adopt(request) => Some(request.ttl),
            Self::Reclaim(request) => Some(request.ttl),
            Self::Commit { ttl, .. } | Self::Poll { ttl, .. } | Self::Renew { ttl, .. } => {
                Some(*ttl)
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
    /// The latest store time at which this copy may be executed: a copy that was held back
    /// longer is refused, which is what makes it sound to forget tombstones.
    pub not_after_us: u64,
    /// The token time that the caller proposes, where the store is one node of a quorum; `None`
    /// leaves it to the store's clock.
    ///
    /// The node grants with the highest of this, its last token + 1 and its clock −
    /// [`BALLOT_LEAD`]: a caller whose clock is slow is not turned away, and a node that has
    /// forgotten the name gives nothing older than that. One that is more than
    /// [`BALLOT_LEAD`] above both the node's clock and its last token is refused with
    /// [`Refusal::Ballot`]. It counts for a grant at once, not for one out of the queue.
    ///
    /// [`BALLOT_LEAD`]: crate::model::BALLOT_LEAD
    pub ballot_us: Option<u64>,
    /// Who asks.
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
            info: HolderInfo::default(),
        }
    }

    setters! {
        with_ttl: ttl: Duration,
        with_wait: wait: bool,
        with_nonce: nonce: u64,
        with_not_after: not_after_us: u64,
        with_ballot: ballot_us: Option<u64>,
        with_info: info: HolderInfo,
    }
}

/// How a lease that was handed out as a value comes to its new holder, and to one only.
///
/// [`Reply::Granted`]: the hold is that of [`id`](Self::id) from now on, with a new token and, as
/// by [`Action::Renew`], no earlier deadline. What is still sent in the name of
/// [`from`](Self::from) touches it no more: a renewal is [`Reply::NotHeld`] with the newer token,
/// and late copies of the acquire find that their attempt has ended. A copy of the adoption itself
/// gives the same grant again.
///
/// [`Reply::NotHeld`] if `from` does not hold it, or not with this mode and token: it has ended, or
/// somebody has adopted it before. A revoked hold answers [`Reply::Revoked`], a copy that is late
/// [`Reply::Late`], and [`Reply::Stale`] says that a new attempt is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopt {
    /// Whose it will be: a new attempt of whoever adopts.
    pub id: HolderId,
    /// Whose it was when it was handed out.
    pub from: HolderId,
    /// What it is a hold of.
    pub mode: Mode,
    /// The token it was handed out with; `None` where the store is one node of a quorum, which may
    /// have granted it with another one than the quorum.
    pub token: Option<FencingToken>,
    /// How much longer, from now.
    pub ttl: Duration,
    /// A number only the new attempt knows.
    pub nonce: u64,
    /// The latest store time at which this copy may be executed.
    pub not_after_us: u64,
    /// The token time that the caller proposes, as in [`Acquire::ballot_us`].
    pub ballot_us: Option<u64>,
    /// Who adopts.
    pub info: HolderInfo,
}

impl Adopt {
    /// What takes over the hold of `from` for the attempt that `request` would acquire with.
    pub fn new(from: HolderId, token: Option<FencingToken>, request: Acquire) -> Self {
        let Acquire { id, mode, ttl, wait: _, nonce, not_after_us, ballot_us, info } = request;
        Self { id, from, mode, token, ttl, nonce, not_after_us, ballot_us, info }
    }
}

/// How a holder takes back what its store has forgotten: after a restart, a flush, a failover.
///
/// The answer is [`Reply::Granted`] in two cases. *The hold is still in the record*, even past its
/// deadline, with the same mode: then it has kept everybody else out, and goes on; a token that is
/// lower than the claimed one is raised to it, as by [`Action::Commit`]. A writer of which the
/// record has only the reader is the writer again if it is alone and its token the highest; a
/// reader of which it has the writer is a reader, as by [`Action::Renew`]. Or *the record knows
/// nothing of it*, nobody waits, what is asked for fits beside what is held, and, for an exclusive
/// lock, the last token is lower than the claimed one: then it is granted anew with its old token.
///
/// Everything else is [`Reply::NotHeld`]: an equal last token without a hold means that the holder
/// let go, a higher one that somebody came after; and an attempt that was released, cancelled or
/// revoked, or whose end has been noticed, stays over. Tokens of readers and permits fence nothing
/// and are not compared, or the first of them to come back would lock out the rest.
///
/// A revoked hold answers [`Reply::Revoked`], a copy that is late [`Reply::Late`], a token far
/// ahead of the clock [`Refusal::Ballot`], and another capacity or weight as for an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaim {
    /// Which hold.
    pub id: HolderId,
    /// What it is a hold of.
    pub mode: Mode,
    /// The number of the change that made it so, or 0: as it was granted.
    pub change: u64,
    /// Its token.
    pub token: FencingToken,
    /// How much longer, from now.
    pub ttl: Duration,
    /// The number the attempt came with.
    pub nonce: u64,
    /// The latest store time at which this copy may be executed. With the tombstone of the
    /// release, it keeps a late copy from taking back what was let go.
    pub not_after_us: u64,
    /// Who holds.
    pub info: HolderInfo,
}

impl Reclaim {
    /// What takes back the hold with this token that `request` would acquire.
    pub fn new(token: FencingToken, change: u64, request: Acquire) -> Self {
        let Acquire { id, mode, ttl, wait: _, nonce, not_after_us, ballot_us: _, info } = request;
        Self { id, mode, change, token, ttl, nonce, not_after_us, info }
    }
}

/// What a store says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// Store time of the step.
    pub now: Now,
    /// A bound stopped the work: ask again at once. Every call makes progress.
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
    /// Not now. Nothing was changed, except that a reader who asked to become the writer is
    /// remembered.
    Busy {
        /// When the earliest hold ends, unless it is renewed.
        retry_after: Duration,
    },
    /// What became of a cancelled attempt.
    Cancelled(Cancelled),
    /// The capacity was set.
    CapacitySet {
        /// What it was before; `None` if nobody holds or waits, so that there is none to change.
        before: Option<u32>,
    },
    /// A poll's attempt neither holds nor waits: join again with a new attempt.
    Gone,
    /// It is held.
    Granted(Grant),
    /// An acquire or an adoption came after its `not_after`; nothing was done.
    Late,
    /// One reply for each lease of a [`Operation::Renew`].
    Many(Vec<Reply>),
    /// The answer to [`Operation::List`].
    Names(Vec<LockName>),
    /// This attempt holds nothing (any more).
    NotHeld {
        /// The newest token of the name: a higher one says that somebody came after.
        newest: Option<FencingToken>,
    },
    /// It waits in the queue.
    Queued(Place),
    /// Refused; nothing was changed.
    Refused(Refusal),
    /// The hold has ended.
    Released,
    /// Whether the revoked token was held. To its own holder's renewal: an operator asks to stop.
    Revoked(bool),
    /// This attempt has ended before: a late copy, or a new number is needed. To a change of mode:
    /// a later one was asked for, or it was taken back.
    Stale,
    /// The answer to [`Action::Inspect`].
    Status(Box<Status>),
    /// Another reader waits to become the writer, or is upgradable and may come to: two would wait
    /// for each other for ever. An upgradable reader is never told so.
    WouldDeadlock,
}

/// A hold, as its holder is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The token of the grant.
    pub token: FencingToken,
    /// When the store ends the hold, by its lease clock.
    pub deadline_us: u64,
    /// Whether somebody waits for the name.
    pub contended: bool,
}

impl Grant {
    /// The hold of a name that nobody waits for.
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
    /// At most so many come before.
    pub ahead: u32,
    /// When to ask again.
    pub retry_after: Duration,
    /// The capacity in force, if it asks for another one: it is granted once nobody holds.
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

/// What became of a cancelled attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// It had been granted; the hold was released and handed on.
    Released,
    /// It waited and left the queue.
    Removed,
    /// It was not known; a late copy of its acquire will be refused.
    Unknown,
}

/// Why a store would not even consider a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The token that was proposed, committed or claimed is more than
    /// [`BALLOT_LEAD`](crate::model::BALLOT_LEAD) ahead of the store's clock and of the last token:
    /// one caller or node with a wrong clock must not spoil the tokens of all. The answer's `now`
    /// says what would be believed.
    Ballot,
    /// The name is held or awaited with another capacity (a lock has [`crate::LOCK_CAPACITY`]), or
    /// more was asked for than an operator has left, and the request would not wait for the end of
    /// that; or one is a lock and the other a semaphore.
    Mismatch {
        /// The capacity in force.
        capacity: u32,
    },
    /// As many wait as may.
    QueueFull,
    /// The record was written by a release of leasehold that this one does not understand.
    Version {
        /// The version found.
        found: u32,
    },
    /// More permits were asked for than there are.
    Weight,
}

/// What arrives in a client's inbox. Always a hint: nothing depends on its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Messages may have been lost: ask about everything again.
    Gap,
    /// An attempt was granted, or a reader became the writer.
    Granted {
        /// Which attempt of this client.
        attempt: u64,
        /// The number the attempt came with.
        nonce: u64,
        /// The token of the grant.
        token: FencingToken,
        /// Store time of the grant.
        now_us: u64,
        /// Until when it must be confirmed.
        deadline_us: u64,
    },
    /// An operator asks this attempt's holder to stop.
    Revoked {
        /// Which attempt of this client.
        attempt: u64,
        /// The number the attempt came with.
        nonce: u64,
        /// Its token.
        token: FencingToken,
        /// The hold has ended already.
        forced: bool,
    },
}

/// A message and whose inbox it is for.
pub type Addressed = (ClientId, Message);
