//! The same question to many nodes at once, each of which may take only so long.

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use leasehold_core::{BoxFuture, Instant, Operation, StoreError, StoreErrorKind};

use super::Nodes;
use crate::store::clocked::TimedAnswer;

/// What became of a question: which node it was for, and its answer.
pub(super) type Heard<T = TimedAnswer> = (usize, Result<T, StoreError>);

/// Questions under way. Dropping it gives up on those that have no answer yet.
pub(super) struct Asking<'a, T = TimedAnswer> {
    nodes: &'a Nodes,
    sent: Instant,
    pending: Vec<usize>,
    answers: FuturesUnordered<BoxFuture<'a, Heard<T>>>,
    timer: BoxFuture<'static, ()>,
    is_over: bool,
}

impl<'a, T: Send + 'a> Asking<'a, T> {
    /// Nothing is asked yet; what will be has until `until`.
    pub(super) fn new(nodes: &'a Nodes, until: Instant) -> Self {
        Self {
            nodes,
            sent: nodes.clock.now(),
            pending: Vec::new(),
            answers: FuturesUnordered::new(),
            timer: nodes.clock.sleep_until(until),
            is_over: false,
        }
    }

    /// Waits for something that ends with the answer of one node.
    pub(super) fn add(
        &mut self,
        index: usize,
        answer: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) {
        self.pending.push(index);
        self.answers.push(Box::pin(async move { (index, answer.await) }));
    }

    /// The next answer, or a failure for each node that did not answer in time; `None` once all
    /// were heard.
    pub(super) async fn next(&mut self) -> Option<Heard<T>> {
        if !self.is_over {
            match select(self.answers.next(), &mut self.timer).await {
                Either::Left((Some(heard), _)) => {
                    self.pending.retain(|index| *index != heard.0);
                    return Some(heard);
                }
                Either::Left((None, _)) => return None,
                Either::Right(((), _)) => self.is_over = true,
            }
        }
        let index = self.pending.pop()?;
        self.nodes.nodes[index].did_not_answer(self.sent);
        let why = "it did not answer in time";
        Some((index, Err(StoreError::new(StoreErrorKind::Timeout, why).maybe_executed())))
    }
}

impl<'a> Asking<'a> {
    /// The same operation to all nodes.
    pub(super) fn all(nodes: &'a Nodes, until: Instant, operation: &Operation) -> Self {
        let mut asking = Self::new(nodes, until);
        for index in 0..nodes.len() {
            asking.ask(index, operation.clone());
        }
        asking
    }

    /// Asks one node.
    pub(super) fn ask(&mut self, index: usize, operation: Operation) {
        let nodes = self.nodes;
        self.add(index, nodes.nodes[index].ask(operation));
    }
}
