//! The requests to a record, and the replies.

use leasehold_core::{HolderId, HolderInfo, Mode};

use super::record::{Hold, Last};

/// A request about one name. Every action is idempotent by attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ends a hold or a wait, and grants the name to the next waiter in the same step.
    End(End),
    /// Moves the deadline of a hold to `ttl_ms` from now, if that is later. This claims a grant
    /// that was handed over. It gives nobody a hold.
    Keep {
        id: HolderId,
        ttl_ms: u64,
        /// What the gate should say about its holder.
        description: Option<Description>,
    },
    /// Shows the record and changes nothing.
    Look { limit: usize },
    /// Ends a hold for an operator: it is not kept any more, or it is over at once.
    Revoke { id: HolderId, force: bool },
    /// Takes the name, or joins its queue, or keeps a place in it.
    Take(Take),
}

/// Who takes a name, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    pub(crate) id: HolderId,
    pub(crate) mode: Mode,
    pub(crate) ttl_ms: u64,
    /// Whether to wait.
    pub(crate) waits: bool,
    /// The place that the attempt had, if it has waited before.
    pub(crate) place: Option<u64>,
    pub(crate) info: HolderInfo,
    /// The token that the caller proposes to all nodes of a quorum.
    pub(crate) ballot: Option<u64>,
    /// The attempt that handed its lease out, and the token of the lease: the caller takes it over.
    pub(crate) from: Option<(HolderId, u64)>,
    /// The token of a lease of the caller that the store may have forgotten.
    pub(crate) claim: Option<u64>,
}

impl Take {
    /// A request that waits for its turn.
    pub(crate) fn new(id: HolderId, mode: Mode, ttl_ms: u64) -> Self {
        let info = HolderInfo::default();
        let (ballot, from, claim) = (None, None, None);
        Self { id, mode, ttl_ms, waits: true, place: None, info, ballot, from, claim }
    }
}

/// What the keeper of a lease tells its store, so that others can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) token: u64,
    pub(crate) info: HolderInfo,
}

/// Which attempt ends, and what it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) id: HolderId,
    /// Whether a copy of a request of this attempt may still arrive.
    pub(crate) closes: bool,
    /// For how long the name stays taken, by nobody.
    pub(crate) cooldown_ms: u64,
    /// For how long the name says who held it last, and who that was.
    pub(crate) remember: Option<(u64, HolderInfo)>,
}

impl End {
    /// An end that leaves nothing.
    pub(crate) fn new(id: HolderId, closes: bool) -> Self {
        Self { id, closes, cooldown_ms: 0, remember: None }
    }
}

/// A grant that was handed over, for the inbox of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Granted {
    pub(crate) id: HolderId,
    pub(crate) token: u64,
    /// The store's time of the grant: the claim window begins here, whenever the message arrives.
    pub(crate) now_ms: u64,
}

/// The result of a step, apart from the changed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) reply: Reply,
    pub(crate) messages: Vec<Granted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Somebody else has the name, for this time at least, and the caller does not wait.
    Busy {
        left_ms: u64,
    },
    /// This attempt has ended.
    Closed,
    /// Whether there was something to end.
    Ended(bool),
    /// The attempt holds.
    Granted {
        token: u64,
    },
    /// The lease is kept; somebody may wait for it.
    Kept {
        awaited: bool,
    },
    /// This attempt does not hold.
    NotHeld,
    /// The attempt waits. It asks again after this time at the latest.
    Queued {
        place: u64,
        ahead: usize,
        ask_ms: u64,
    },
    Refused(Refusal),
    /// An operator has revoked the hold: it ends at its deadline, or has ended.
    Revoked,
    Status(Box<Status>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The ballot is too far ahead of the store's clock and of its counter.
    Ballot,
    /// The name is in use as another kind of lock, or with another capacity.
    Mismatch {
        capacity: u32,
    },
    QueueFull,
    /// More permits were asked for than there are.
    Weight,
}

/// What a record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// Who holds, in which mode, and for how long without a renewal.
    pub(crate) holders: Vec<(Hold, Mode, u64)>,
    pub(crate) is_revoked: bool,
    /// Who waits, by place.
    pub(crate) waiters: Vec<(u64, HolderId, Mode)>,
    pub(crate) waiting: usize,
    /// How long the name stays taken by nobody.
    pub(crate) cools_ms: Option<u64>,
    pub(crate) last: Option<Last>,
}
