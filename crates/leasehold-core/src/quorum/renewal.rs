//! The count of one renewal of one lease: is it extended, lost, or neither?

use crate::request::{Refusal, Reply};

/// The vote of one node on a lease that it was asked to renew, or to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeVote {
    /// The node has the lease.
    Held,
    /// The node does not have the lease.
    NotHeld,
    /// There was no answer, or one that does not fit the request.
    Nothing,
    /// The node cannot decide: the record cannot be read, or does not allow the renewal.
    Refused(Refusal),
    /// An operator asks the holder to stop.
    Revoked,
}

impl From<&Reply> for NodeVote {
    fn from(reply: &Reply) -> Self {
        match reply {
            Reply::Granted(_) | Reply::Kept { .. } => Self::Held,
            Reply::Closed | Reply::NotHeld => Self::NotHeld,
            Reply::Refused(refusal) => Self::Refused(*refusal),
            Reply::Revoked => Self::Revoked,
            _ => Self::Nothing,
        }
    }
}

/// The votes of the nodes on one lease in one renewal.
///
/// A renewal that fails on some nodes does not end the lease: it lasts for as long as the last
/// renewal that a majority has granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RenewTally {
    nodes: usize,
    needed: usize,
    held: usize,
    not_held: usize,
    refusal: Option<Refusal>,
    refused: usize,
    revoked: usize,
}

impl RenewTally {
    /// A tally without votes yet, for `nodes` nodes, of which `needed` must have the lease to
    /// extend it.
    pub fn new(nodes: usize, needed: usize) -> Self {
        Self { nodes, needed, held: 0, not_held: 0, refusal: None, refused: 0, revoked: 0 }
    }

    /// Counts the vote of one more node.
    pub fn add(&mut self, said: NodeVote) {
        match said {
            NodeVote::Held => self.held += 1,
            NodeVote::NotHeld => self.not_held += 1,
            NodeVote::Nothing => {}
            NodeVote::Refused(refusal) => {
                self.refused += 1;
                self.refusal = Some(refusal);
            }
            NodeVote::Revoked => self.revoked += 1,
        }
    }

    /// Whether a majority has the lease: then nobody had learned of a higher token before the
    /// renewal was sent.
    pub fn is_extended(&self) -> bool {
        self.held >= self.needed
    }

    /// Whether a majority can no longer be reached.
    pub fn is_lost(&self) -> bool {
        self.not_held + self.revoked > self.nodes - self.needed
    }

    /// The refusal because of which the lease is neither extended nor known to be lost, if any.
    pub fn refusal(&self) -> Option<Refusal> {
        let is_out_of_reach =
            self.not_held + self.revoked + self.refused > self.nodes - self.needed;
        self.refusal.filter(|_| is_out_of_reach && !self.is_lost())
    }

    /// Whether the outcome is certain.
    pub fn is_certain(&self) -> bool {
        self.is_extended() || self.is_lost() || self.refusal().is_some()
    }

    /// The reply to the holder of a lease that no majority has: an operator asks it to stop if any
    /// node says so.
    pub fn loss(&self) -> Reply {
        if self.revoked > 0 { Reply::Revoked } else { Reply::NotHeld }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(said: &[NodeVote]) -> RenewTally {
        let mut tally = RenewTally::new(3, 2);
        said.iter().for_each(|said| tally.add(*said));
        tally
    }

    #[test]
    fn a_majority_extends_or_ends_a_lease_and_less_does_neither() {
        let (held, gone) = (NodeVote::Held, NodeVote::NotHeld);
        let (extended, lost) =
            (tally(&[held, gone, held]), tally(&[gone, held, NodeVote::Revoked]));
        assert!(extended.is_extended() && extended.is_certain());
        assert!(lost.is_lost() && lost.is_certain());
        for undecided in
            [&[held, gone, NodeVote::Nothing][..], &[NodeVote::Nothing, NodeVote::Revoked], &[]]
        {
            assert!(!tally(undecided).is_certain(), "{undecided:?}");
        }
    }

    #[test]
    fn what_too_many_nodes_refuse_is_refused_and_neither_extended_nor_lost() {
        let (held, gone) = (NodeVote::Held, NodeVote::NotHeld);
        let damaged = NodeVote::Refused(Refusal::Damaged);
        for said in [&[damaged, damaged, held][..], &[damaged, gone, held], &[damaged, damaged]] {
            let tally = tally(said);
            assert_eq!(tally.refusal(), Some(Refusal::Damaged), "{said:?}");
            assert!(tally.is_certain() && !tally.is_extended() && !tally.is_lost(), "{said:?}");
        }
        for said in [&[held, damaged, held][..], &[gone, damaged, gone], &[damaged, held]] {
            assert_eq!(tally(said).refusal(), None, "{said:?}");
        }
        let mut of_five = RenewTally::new(5, 3);
        for refusal in [None, None, Some(Refusal::Damaged)] {
            of_five.add(damaged);
            assert_eq!(of_five.refusal(), refusal, "the other nodes may be a majority");
        }
    }

    #[test]
    fn a_lease_on_five_nodes_outlives_the_word_of_two() {
        let mut tally = RenewTally::new(5, 3);
        for is_lost in [false, false, true] {
            tally.add(NodeVote::NotHeld);
            assert_eq!(tally.is_lost(), is_lost);
        }
    }

    #[test]
    fn a_lease_is_revoked_by_one_node_or_more() {
        let (held, revoked) = (NodeVote::Held, NodeVote::Revoked);
        assert_eq!(tally(&[held, held]).loss(), Reply::NotHeld);
        assert_eq!(tally(&[held, revoked]).loss(), Reply::Revoked);
        assert_eq!(tally(&[revoked, held, revoked]).loss(), Reply::Revoked);
    }
}
