//! The replies of nodes to one request, as far as they have come.

use std::sync::Arc;

use leasehold_core::quorum::NodeHold;
use leasehold_core::time::micros;
use leasehold_core::{
    Action, Answer, FencingToken, Grant, HolderId, Instant, LockName, Operation, Reply, StoreError,
};

use super::fan_out::{FanOut, NodeReply};
use super::leases::granted;
use super::nodes::Nodes;
use crate::store::clocked::TimedAnswer;

#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) answers: Vec<(usize, TimedAnswer)>,
    errors: Vec<StoreError>,
}

impl Replies {
    pub(super) fn add(&mut self, (index, outcome): NodeReply) {
        match outcome {
            Ok(timed) => self.answers.push((index, timed)),
            Err(error) => self.errors.push(error),
        }
    }

    /// The error if too few nodes answered for the outcome to be known.
    pub(super) fn undecided(&self, nodes: &Nodes, name: &LockName) -> StoreError {
        nodes.undecided(name.as_str(), self.answers.len(), &self.errors)
    }

    /// The grant if a majority holds the lease, or the loss if no majority can.
    pub(super) fn granted_or_lost(
        &self,
        nodes: &Nodes,
        name: &LockName,
        id: HolderId,
        started: Instant,
    ) -> Result<Answer, StoreError> {
        if self.granted() >= nodes.needed {
            return Ok(nodes.answer(started, Reply::Granted(self.unchanged(nodes, id, started))));
        }
        match self.loss(nodes) {
            Some(loss) => Ok(nodes.answer(started, loss)),
            None => Err(self.undecided(nodes, name)),
        }
    }

    /// The lease with its present deadline, for a request that does not move the deadline.
    pub(super) fn unchanged(&self, nodes: &Nodes, id: HolderId, started: Instant) -> Grant {
        let known = nodes.leases.lock().get(id).map(|known| (known.token, known.until));
        let highest = || self.tokens().max().unwrap_or(FencingToken::from_micros(0));
        let (token, until) = known.unwrap_or_else(|| (highest(), started));
        Grant::new(token, micros(until.since_origin()))
    }

    pub(super) fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.answers.iter().map(|(_, timed)| &timed.answer.reply)
    }

    pub(super) fn count(&self, of: impl Fn(&Reply) -> bool) -> usize {
        self.replies().filter(|reply| of(reply)).count()
    }

    pub(super) fn granted(&self) -> usize {
        self.holds().count()
    }

    /// The nodes that hold the lease, with the token and the hold of each.
    pub(super) fn holds(&self) -> impl Iterator<Item = (usize, FencingToken, NodeHold)> {
        self.answers
            .iter()
            .filter_map(|(index, timed)| granted(timed).map(|(token, hold)| (*index, token, hold)))
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = FencingToken> {
        self.holds().map(|(_, token, _)| token)
    }

    /// The reply of the nodes that do not hold the lease, if the other nodes are no majority.
    pub(super) fn loss(&self, nodes: &Nodes) -> Option<Reply> {
        let not_held = |reply: &Reply| matches!(reply, Reply::NotHeld { .. });
        let revoked = self.count(|reply| matches!(reply, Reply::Revoked(_)));
        if self.count(not_held) + revoked <= nodes.len() - nodes.needed {
            return None;
        }
        let newest = self.replies().filter_map(|reply| match reply {
            Reply::NotHeld { newest } => *newest,
            _ => None,
        });
        Some(match revoked {
            0 => Reply::NotHeld { newest: newest.max() },
            _ => Reply::Revoked(true),
        })
    }
}

/// Asks all nodes until the outcome is certain.
pub(super) async fn ask(
    nodes: &Arc<Nodes>,
    name: &LockName,
    action: Action,
    is_certain: impl Fn(&Replies) -> bool,
) -> Replies {
    let until = nodes.clock.now() + nodes.patience();
    let operation = Operation::On { name: name.clone(), action };
    let mut fan_out = FanOut::all(nodes, until, &operation);
    let mut replies = Replies::default();
    while !is_certain(&replies)
        && let Some(reply) = fan_out.next().await
    {
        replies.add(reply);
    }
    replies
}

/// Asks all nodes, until a majority holds the lease or none can.
pub(super) async fn ask_holders(nodes: &Arc<Nodes>, name: &LockName, action: Action) -> Replies {
    let is_certain =
        |replies: &Replies| replies.granted() >= nodes.needed || replies.loss(nodes).is_some();
    ask(nodes, name, action, is_certain).await
}
