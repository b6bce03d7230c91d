//! A lease that was handed out, and what a node is asked to adopt it.

use leasehold_core::{Acquire, Adopt, FencingToken, HolderId, Reply};

use crate::store::clocked::TimedAnswer;

/// A lease, as it was handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandedOut {
    pub(super) holder: HolderId,
    pub(super) token: FencingToken,
}

impl HandedOut {
    /// What one node is asked for: whatever token it has granted the lease with.
    pub(super) fn adoption(self, acquire: Acquire) -> Adopt {
        // Nodes that remember no token come to none together: each gives a higher one.
        let ballot_us = acquire.ballot_us.or(Some(self.token.micros() + 1));
        Adopt::new(self.holder, None, acquire.with_ballot(ballot_us))
    }

    /// Whether a node has never granted the lease, nor any that came after. It was not needed when
    /// the lease was granted, and gives the name to any adopter. Else two adopters could each get
    /// half of the nodes that have granted it, and none a majority. Alone such nodes give nothing:
    /// a lease that none of a majority has granted has ended.
    pub(super) fn is_unknown_to(self, timed: &TimedAnswer) -> bool {
        match &timed.answer.reply {
            Reply::NotHeld { newest } => {
                newest.is_none_or(|newest| newest.micros() < self.token.micros())
            }
            _ => false,
        }
    }
}
