//! A lock on several stores at once, as a count of votes: no I/O, no clock.
//!
//! A caller asks all nodes for the same attempt and holds the lock where a majority of them grants
//! it: two majorities have a node in common, and no node grants twice. [`Round`] says what the
//! answers to an acquire come to, [`RenewTally`] those to a renewal, [`quorum_validity`] how long
//! the lease may be relied on, and [`Ballots`] which token to propose.
//!
//! # Why tokens are in order
//!
//! *Success* of X means: a majority of nodes has stored a last token of at least X's token p(X)
//! *while X held there*, by the grant itself or by a commit, before X was told; and p(X) is at
//! least what each of these nodes granted X with.
//!
//! **If no node's last token ever goes down, successful acquisitions have distinct tokens. Their
//! order is that on every node they have in common, and that of real time.** No clock, delay, pause
//! or ttl enters into it. Take A and B and a node of both majorities where A was granted before B.
//! There A's token was stored while A held, hence before B was granted; B was then granted with
//! more than the last token, so p(B) > p(A). Numbers have one order, so it is the same on every
//! common node; and if A was told before B asked, that order is the one of real time.
//!
//! That is so where A and B cannot hold together. Of two *readers* B may be granted on the common
//! node before A's commit arrives there, and both may come to one number: on two nodes that had
//! granted nothing, each is the first on one, with 1, and the second on the other, with 2, and each
//! commits 2. But every number that is agreed on was minted for its reader by some node, in this
//! round, because only such numbers are committed; and no node mints a number twice. So what a
//! reader is told is the number *and which node minted it for it*, in the low bits of the token
//! ([`Round::beside_others`]): two readers with one number have it from two nodes. Of all else
//! nothing changes: nodes store and compare the number alone, and a later grant has a higher
//! number, hence a higher token, whichever node minted it. It needs clients that number the nodes
//! alike, and no room: a reader's lease is not passed on inside of a process.
//!
//! A token that is merely the highest that the nodes gave by themselves would not do: see
//! [`Action::Commit`](crate::Action::Commit).
//!
//! **A renewal that a majority answers proves that no higher token was told to anybody before it
//! was sent**: on each node of that other majority somebody else has held since, and a node renews
//! for who holds it alone.
//!
//! Both need nodes that do not forget. A node that was restarted without its data, flushed or
//! failed over must grant nothing new until the longest lease that it may have forgotten has ended;
//! holders may [reclaim](crate::Reclaim) theirs meanwhile. By then it grants no token that is older
//! than its clock less [`BALLOT_LEAD`](crate::model::BALLOT_LEAD), so order rests on the clocks of
//! the nodes being closer to each other than that time less twice the lead; so does the order of
//! tokens across the [retention](crate::model::Rules::retention) of a record.
//!
//! What was let go needs no token to bury it. A late copy of an acquire that is granted after all
//! raises the last token, and no caller learns of it: it costs the next caller a wait, not the
//! order. The attempt's tombstone and `not_after` see to that.
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
