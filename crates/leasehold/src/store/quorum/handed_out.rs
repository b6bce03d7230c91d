//! A lease that was handed out, and the request to a node to adopt it.

use leasehold_core::{Acquire, Adopt, FencingToken, HolderId, Reply};

use crate::store::clocked::TimedAnswer;

/// A lease, as it was handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandedOut {
    pub(super) holder: HolderId,
    pub(super) token: FencingToken,
}

impl HandedOut {
    /// The request to one node. It adopts the lease, whatever token the node has granted the lease
    /// with.
    pub(super) fn adoption(self, acquire: Acquire) -> Adopt {
        // Nodes that record no tokens do not agree on one. With this ballot, each of them grants a
        // higher token.
        let ballot_us = acquire.ballot_us.or(Some(self.token.micros() + 1));
        Adopt::new(self.holder, None, acquire.with_ballot(ballot_us))
    }

    /// Whether a node has never granted the lease, nor any later one. Such a node was not needed
    /// for the grant, and grants the name to any adopter. If it refused, two adopters could each
    /// get half of the nodes that have the lease, and neither would have a majority. Such nodes
    /// alone are not enough: if no node of a majority has granted the lease, the lease has ended.
    pub(super) fn is_unknown_to(self, timed: &TimedAnswer) -> bool {
        match &timed.answer.reply {
            Reply::NotHeld { newest } => {
                newest.is_none_or(|newest| newest.micros() < self.token.micros())
            }
            _ => false,
        }
    }
}
