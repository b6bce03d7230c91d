//! One moment of the world.

use leasehold_core::model::Record;
use leasehold_core::quorum::{RenewTally, Round};
use leasehold_core::{ClientId, FencingToken, HolderId, Now};

use super::scenario::NODES;

/// 2026-01-01T00:00Z, where token time begins.
pub(super) const WALL_US: u64 = 1_767_225_600_000_000;
/// Where lease time begins.
pub(super) const START_US: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    pub(super) time: u64,
    pub(super) nodes: [Node; NODES],
    pub(super) clients: Vec<Client>,
    pub(super) requests: Vec<Request>,
    /// The clients that learned that they hold, in order.
    pub(super) told: Vec<Told>,
    /// A lease was extended although a higher token had been reported when its holder asked.
    pub(super) was_overtaken: bool,
    /// A holder was told of a loss, in a world in which nodes forget one after another.
    pub(super) was_told_of_loss: bool,
    pub(super) jumps: u8,
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) copies: u8,
    pub(super) others: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Node {
    pub(super) record: Record,
    /// The number from which the node draws its tokens.
    pub(super) counter: u64,
    /// Seconds that its clock has jumped.
    pub(super) ahead: u64,
    pub(super) quarantined_until: u64,
    /// In a world in which nodes forget one after another: whether this node has forgotten, and has
    /// answered no renewal since.
    pub(super) is_behind: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// The newest reported token when the round began.
    pub(super) newest: Option<FencingToken>,
    pub(super) began: u64,
    /// How many takes of it each node has not answered. They may still be executed,
    /// whatever the node answers to a later request.
    pub(super) unanswered: [u8; NODES],
    /// Nodes that have executed the end of its attempt.
    pub(super) is_over: [bool; NODES],
}

#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) enum Phase {
    Asking(Round),
    Committing(Round, FencingToken),
    /// It has asked the nodes to end what is left of its attempt.
    Ended,
    Holding(Lease),
    #[default]
    Idle,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Lease {
    pub(super) token: FencingToken,
    /// The second before which the lease may be relied on.
    pub(super) until: u64,
    pub(super) renewals: u8,
    pub(super) renewal: Option<Renewal>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Renewal {
    pub(super) began: u64,
    /// Nodes whose answer is counted: a second answer to the same renewal says nothing new.
    pub(super) is_heard: [bool; NODES],
    pub(super) tally: RenewTally,
    /// The newest reported token when the renewal began.
    pub(super) newest: Option<FencingToken>,
}

impl Client {
    /// Whether a majority has answered to its renewal that it holds.
    pub(super) fn is_extended(&self) -> bool {
        let Phase::Holding(Lease { renewal: Some(renewal), .. }) = &self.phase else {
            return false;
        };
        renewal.tally.is_extended()
    }

    /// Its attempt is over, and its knowledge does not matter any more. Returns its phase.
    pub(super) fn end(&mut self) -> Phase {
        (self.newest, self.began, self.unanswered) = (None, 0, [0; NODES]);
        std::mem::replace(&mut self.phase, Phase::Ended)
    }
}

/// A token that a client learned, and the newest token that was known before it asked.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub(super) struct Told {
    pub(super) token: FencingToken,
    pub(super) newest: Option<FencingToken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) from: u8,
    pub(super) node: usize,
    pub(super) sent: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Claim(FencingToken),
    Describe(FencingToken),
    End { closes: bool },
    Join(FencingToken),
    Keep,
    Take { ballot_us: u64 },
}

pub(super) fn id(client: u8) -> HolderId {
    HolderId { client: ClientId(client.into()), attempt: 1 }
}

impl Kind {
    pub(super) fn is_end(self) -> bool {
        matches!(self, Self::End { .. })
    }
}

impl Node {
    pub(super) fn is_in_quarantine(&self, time: u64) -> bool {
        time < self.quarantined_until
    }

    /// Tokens come from the caller's ballot here, so only the clock of leases jumps.
    pub(super) fn now(&self, time: u64) -> Now {
        let lease_us = START_US + (time + self.ahead) * 1_000_000;
        Now { lease_us, token_us: WALL_US + time * 1_000_000 }
    }
}

impl State {
    pub(super) fn send(&mut self, from: u8, node: usize, kind: Kind) {
        self.requests.push(Request { from, node, sent: self.time, kind });
    }

    /// The newest token that a client has learned.
    pub(super) fn newest(&self) -> Option<FencingToken> {
        self.told.iter().map(|told| told.token).max()
    }

    /// Whether a node has not answered the last renewal of a client.
    pub(super) fn is_renewing(&self, client: u8) -> bool {
        self.requests.iter().any(|request| {
            request.from == client
                && matches!(request.kind, Kind::Claim(_) | Kind::Join(_) | Kind::Keep)
        })
    }

    pub(super) fn believers(&self) -> usize {
        let believes = |client: &&Client| match &client.phase {
            Phase::Holding(lease) => self.time < lease.until,
            Phase::Asking(_) | Phase::Committing(..) | Phase::Ended | Phase::Idle => false,
        };
        self.clients.iter().filter(believes).count()
    }

    pub(super) fn holds(&self, client: u8, node: usize) -> bool {
        self.nodes[node].record.holders().contains(&id(client).client)
    }
}
