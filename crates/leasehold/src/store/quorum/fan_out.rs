//! One request to many nodes at the same time. Each node has only a limited time.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use leasehold_core::{Action, BoxFuture, Instant, LockName, Operation, Reply, StoreError};

use super::node::{NodeReply, Pending, Result, no_answer};
use super::nodes::Nodes;
use crate::store::clocked::TimedAnswer;

/// Requests under way. The drop gives up the requests without an answer.
pub(super) struct FanOut<'n, 'a, T = TimedAnswer> {
    nodes: &'n Nodes,
    sent: Instant,
    pending: Vec<usize>,
    replies: Pending<'a, T>,
    timer: BoxFuture<'static, ()>,
    is_over: bool,
}

impl<'n, 'a, T: Send + 'a> FanOut<'n, 'a, T> {
    /// A fan-out without requests yet. Its requests have time until `until`.
    pub(super) fn new(nodes: &'n Nodes, until: Instant) -> Self {
        Self {
            nodes,
            sent: nodes.clock.now(),
            pending: Vec::new(),
            replies: FuturesUnordered::new(),
            timer: nodes.clock.sleep_until(until),
            is_over: false,
        }
    }

    /// Adds a future that ends with the answer of one node.
    pub(super) fn add(
        &mut self,
        index: usize,
        answer: impl Future<Output = Result<T>> + Send + 'a,
    ) {
        self.pending.push(index);
        self.replies.push(Box::pin(async move { (index, answer.await) }));
    }

    /// The next reply, or an error for a node that did not answer in time; `None` once each node
    /// has had its reply or error.
    pub(super) async fn next(&mut self) -> Option<NodeReply<T>> {
        if !self.is_over {
            match select(self.replies.next(), &mut self.timer).await {
                Either::Left((Some(reply), _)) => {
                    self.pending.retain(|index| *index != reply.0);
                    return Some(reply);
                }
                Either::Left((None, _)) => return None,
                Either::Right(((), _)) => self.is_over = true,
            }
        }
        let index = self.pending.pop()?;
        self.nodes.nodes[index].did_not_answer(self.sent);
        Some((index, Err(no_answer())))
    }

    /// The answers that have not come. They come whether or not somebody waits.
    pub(super) fn into_pending(self) -> Pending<'a, T> {
        self.replies
    }
}

impl<'n: 'a, 'a> FanOut<'n, 'a> {
    /// Asks one node.
    pub(super) fn ask(&mut self, index: usize, operation: Operation) {
        let nodes = self.nodes;
        self.add(index, nodes.nodes[index].ask(operation));
    }
}

/// Reads the clocks of a majority of the nodes, unless they are known: a ballot by a wrong clock of
/// this machine would be refused.
pub(super) async fn know_clocks(nodes: &Nodes, name: &LockName, limit: Duration) {
    let now = nodes.clock.now();
    let is_unknown = |index: &usize| nodes.nodes[*index].token_us(now).is_none();
    let unknown: Vec<usize> = (0..nodes.len()).filter(is_unknown).collect();
    let mut missing = (nodes.needed + unknown.len()).saturating_sub(nodes.len());
    if missing == 0 || !nodes.records_tokens() {
        return;
    }
    let look = Operation::On { name: name.clone(), action: Action::Look { limit: 0 } };
    let mut fan_out = FanOut::new(nodes, now + limit);
    unknown.into_iter().for_each(|index| fan_out.ask(index, look.clone()));
    while missing > 0
        && let Some((_, outcome)) = fan_out.next().await
    {
        missing -= usize::from(outcome.is_ok());
    }
}

/// The replies of nodes to one request, as far as they have come.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) answers: Vec<Reply>,
    errors: Vec<StoreError>,
}

impl Replies {
    pub(super) fn add(&mut self, outcome: Result<TimedAnswer>) {
        match outcome {
            Ok(timed) => self.answers.push(timed.answer.reply),
            Err(error) => self.errors.push(error),
        }
    }

    pub(super) fn count(&self, of: impl Fn(&Reply) -> bool) -> usize {
        self.answers.iter().filter(|reply| of(reply)).count()
    }

    /// The error if too few nodes answered for the outcome to be known.
    pub(super) fn undecided(&self, nodes: &Nodes, what: &str) -> StoreError {
        nodes.undecided(what, self.answers.len(), &self.errors)
    }
}

/// Asks all nodes until the outcome is certain.
pub(super) async fn ask(
    nodes: &Nodes,
    operation: Operation,
    is_certain: impl Fn(&Replies) -> bool,
) -> Replies {
    let mut fan_out = FanOut::new(nodes, nodes.clock.now() + nodes.patience());
    for index in 0..nodes.len() {
        fan_out.ask(index, operation.clone());
    }
    let mut replies = Replies::default();
    while !is_certain(&replies)
        && let Some((_, outcome)) = fan_out.next().await
    {
        replies.add(outcome);
    }
    replies
}
