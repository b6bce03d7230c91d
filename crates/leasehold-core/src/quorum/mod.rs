//! A lock on several stores together, as a count of votes: no I/O, no clock.
//!
//! A caller asks all nodes for the same attempt, and holds the lock if a majority of them grants
//! it. Two majorities have a node in common, and no node grants twice. [`Round`] counts the answers
//! to an acquire, and [`RenewTally`] the answers to a renewal. [`Ballots`] chooses the token to
//! propose. An answer of a node lasts for the ttl, counted from its request. So a majority keeps
//! the lease for the ttl, counted from the first request.
//!
//! # Why tokens are in order
//!
//! *Success* of an acquisition X means two things. First, before X's caller learned of the grant,
//! the counters of a majority of nodes were at least p(X), where p(X) is X's token. They were so
//! *while X held there*, by the grant or by a description. Second, p(X) is at least the token with
//! which each of these nodes granted X.
//!
//! **If no node's counter ever goes back, successful acquisitions have distinct tokens. Their order
//! is the order of the grants on every common node, and the order in real time.** No clock, delay,
//! pause or ttl matters. Take A and B and a node of both majorities that granted A before B. The
//! counter of that node was at least A's token while A held, so before the node granted B. Then it
//! granted B with a number above its counter, so p(B) > p(A). Numbers have only one order, so the
//! order is the same on every common node. If A learned of its grant before B asked, it is also the
//! order in real time.
//!
//! A node may have one counter for many names. Their grants only raise it further.
//!
//! This is true because A and B cannot hold together. Readers could: the common node may grant B
//! before A's description arrives there, and both would have one number. So a quorum has only
//! mutexes.
//!
//! It would not be enough to use the highest token that the nodes granted by themselves: see
//! [`Keep`](crate::Keep).
//!
//! **A renewal that a majority grants proves that nobody had learned of a higher token before it
//! was sent.** This is true if each of these nodes had granted the lease before its holder learned
//! of it. Otherwise somebody else would have held since then on each node of another majority, and
//! a node renews only for its holder. A node may also grant a lease late, when its holder has
//! learned of it from others: because a request was late, or because the holder asks a node that
//! lacks its lease for it. So a lease outlives the nodes that have granted it first. Such a node
//! proves the same only while no clock of a node is set forward.
//!
//! Both statements need nodes that do not forget. A node that was restarted without its data,
//! flushed or failed over may have forgotten leases. It must grant nothing new until the longest of
//! them has ended. Meanwhile, it gives holders back what they [claim](crate::Take::claim). After
//! that, it grants no token that is lower than its clock minus
//! [`BALLOT_LEAD`](crate::model::BALLOT_LEAD). So the order depends on the clocks of the nodes:
//! their difference must be less than the time of that wait minus twice the lead.
//!
//! The order of tokens does not depend on what nodes remember of ended attempts. If a late copy of
//! a request is granted, it raises the counter, and no caller learns of the grant. That costs the
//! next caller a wait, and does not break the order. The list of ended attempts guards against such
//! copies.
//!
//! # Why callers do not refuse each other for ever
//!
//! A ballot is a lower bound. A node whose counter is ahead, by the ballots of others, grants a
//! higher token. Then the caller raises the tokens of the other nodes to it. So a node refuses no
//! ballot because of the ballots of others, and need not say how far its counter is. It refuses
//! only a ballot far ahead of both its clock and its counter. Then some clock is wrong, and the
//! caller reads the clocks of the nodes again. Callers that have split the votes come again after a
//! random delay.
//!
//! `tests/quorum` in this crate searches small worlds for a counterexample, with [`step`] as the
//! nodes and these counts as the clients.
//!
//! [`step`]: crate::model::step

mod ballot;
mod renewal;
mod round;

pub use self::ballot::Ballots;
pub use self::renewal::{NodeVote, RenewTally};
pub use self::round::{Round, Trace, Verdict, Vote};

/// The number of nodes that are a majority of `nodes`.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
