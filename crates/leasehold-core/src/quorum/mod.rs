//! A lock on several stores at once, as a count of votes: no I/O, no clock.
//!
//! A caller asks all nodes for the same attempt, and holds the lock if a majority of them grants
//! it. Two majorities have a node in common, and no node grants twice. [`Round`] counts the answers
//! to an acquire, [`RenewTally`] those to a renewal. [`quorum_validity`] says how long the lease is
//! valid, and [`Ballots`] which token to propose.
//!
//! # Why tokens are in order
//!
//! *Success* of X means two things. Before X was told, a majority of nodes stored a last token of
//! at least p(X), X's token. They did so *while X held there*, by the grant or by a commit. And
//! p(X) is at least the token with which each of these nodes granted X.
//!
//! **If no node's last token ever goes down, successful acquisitions have distinct tokens. Their
//! order is that on every node they have in common, and that of real time.** No clock, delay, pause
//! or ttl enters into it. Take A and B and a node of both majorities where A was granted before B.
//! There A's token was stored while A held, hence before B was granted; B was then granted with
//! more than the last token, so p(B) > p(A). Numbers have one order, so it is the same on every
//! common node; and if A was told before B asked, that order is the one of real time.
//!
//! That is true if A and B cannot hold together. Two *readers* may come to one number, because the
//! common node may grant B before A's commit arrives there. For example, take two nodes that had
//! granted nothing. Each reader is the first on one node, with 1, and the second on the other, with
//! 2; then each commits 2. But only numbers of this round are committed, so some node minted each
//! committed number for its reader; and no node mints a number twice. So a reader is told the
//! number *and which node minted it for this reader*, in the low bits of the token
//! ([`Round::beside_others`]): two readers with one number have it from two nodes. Nothing else
//! changes. Nodes store and compare the number alone, and a later grant has a higher number, hence
//! a higher token, from any node. Clients must number the nodes alike. The low bits are free for
//! this, because a process does not pass a reader's lease on.
//!
//! A token that is merely the highest that the nodes gave by themselves would not do: see
//! [`Action::Commit`](crate::Action::Commit).
//!
//! **A renewal that a majority answers proves that no higher token was told to anybody before it
//! was sent.** Otherwise somebody else would have held since on each node of that other majority,
//! and a node renews only for its holder.
//!
//! Both need nodes that do not forget. A node that was restarted without its data, flushed or
//! failed over may have forgotten leases. It must grant nothing new until the longest of them has
//! ended; holders may [reclaim](crate::Reclaim) theirs meanwhile. After that it grants no token
//! that is older than its clock less [`BALLOT_LEAD`](crate::model::BALLOT_LEAD). So order depends
//! on the clocks of the nodes: they must be closer to each other than that time less twice the
//! lead. The same is true of the order of tokens across the
//! [retention](crate::model::Rules::retention) of a record.
//!
//! A lease that was let go needs no token to bury it. If a late copy of an acquire is granted after
//! all, it raises the last token, and no caller learns of it. It costs the next caller a wait, not
//! the order. The attempt's tombstone and `not_after` see to that.
//!
//! `tests/quorum` in this crate searches small worlds for a counterexample, with [`step`] as the
//! nodes and these counts as the clients.
//!
//! [`step`]: crate::model::step

mod ballot;
mod renewal;
mod round;
mod validity;

pub use self::ballot::Ballots;
pub use self::renewal::{NodeVote, RenewTally};
pub use self::round::{Round, Trace, Verdict, Vote};
pub use self::validity::{NodeHold, quorum_validity};

/// How many of `nodes` nodes are a majority.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
