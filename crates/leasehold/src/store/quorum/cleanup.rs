//! Cleanups: they end the attempts that nodes hold or may hold, also on nodes that do not answer
//! now.
//!
//! Cleanups run on the background thread, because they must go on when the caller and its runtime
//! have gone. Only one task asks a node to end an attempt: a second caller waits for the same
//! answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::select_all;
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{Action, HolderId, Instant, LockName, Operation, StoreError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;

use super::fan_out::FanOut;
use super::leases::LATEST;
use super::node::{Node, NodeReply, Result, seed};
use super::nodes::Nodes;
use crate::background;
use crate::clock::within;
use crate::replies::may_pass;

/// The first and the longest delay before a node that did not answer is asked again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The largest number of pending cleanups at one node: 10 000, some megabytes. A further cleanup is
/// sent only once, and if that fails, the attempt ends at its deadline.
const MAX_PENDING: usize = 10_000;

/// One cleanup at one node. It is pending until this value is dropped.
struct PendingCleanup {
    node: Arc<Node>,
    index: usize,
    id: HolderId,
    /// The last failure, for those who wait for the end of the cleanup.
    failure: watch::Sender<Option<StoreError>>,
    /// Gets the first reply.
    first: Option<UnboundedSender<NodeReply>>,
}

impl PendingCleanup {
    /// Adds the cleanup, unless it is pending already.
    fn add(
        nodes: &Nodes,
        index: usize,
        id: HolderId,
        first: &UnboundedSender<NodeReply>,
    ) -> Option<Self> {
        let node = &nodes.nodes[index];
        let mut cleanups = node.cleanups.lock();
        if cleanups.contains_key(&id) {
            return None;
        }
        let failure = watch::Sender::default();
        cleanups.insert(id, failure.subscribe());
        Some(Self { node: Arc::clone(node), index, id, failure, first: Some(first.clone()) })
    }
}

impl Drop for PendingCleanup {
    fn drop(&mut self) {
        self.node.cleanups.lock().remove(&self.id);
    }
}

/// Sends an action to each of some nodes, again and again until it is answered or no longer
/// matters. It no longer matters once the ttl has ended the hold, and [`LATEST`] is over. Returns a
/// channel with the first reply of each node, but for those that are to end the attempt already.
pub(super) fn start(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    actions: Vec<(usize, Action)>,
    ttl: Duration,
) -> Result<UnboundedReceiver<NodeReply>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let add = |(index, action)| Some((PendingCleanup::add(nodes, index, id, &sender)?, action));
    let cleanups: Vec<(PendingCleanup, Action)> = actions.into_iter().filter_map(add).collect();
    if cleanups.is_empty() {
        return Ok(receiver);
    }
    let until = nodes.clock.now() + ttl.max(LATEST);
    let (all, name) = (Arc::clone(nodes), name.clone());
    let task = async move {
        let each = cleanups.into_iter().map(|(cleanup, action)| {
            let operation = Operation::On { name: name.clone(), action };
            retry_until_answered(&all, cleanup, operation, until)
        });
        each.collect::<FuturesUnordered<_>>().collect::<()>().await;
    };
    background::spawn(&*nodes.clock, Box::pin(task))?;
    Ok(receiver)
}

/// Whether any node has yet to end an attempt.
pub(super) fn is_pending(nodes: &Nodes, id: HolderId) -> bool {
    nodes.nodes.iter().any(|node| node.cleanups.lock().contains_key(&id))
}

/// Waits until the cleanups of an attempt are pending at a minority at most.
///
/// # Errors
///
/// If nodes refuse the cleanup, and the others are no majority.
pub(super) async fn until_done(nodes: &Nodes, name: &LockName, id: HolderId) -> Result<()> {
    loop {
        let pending = nodes.nodes.iter().filter_map(|node| node.cleanups.lock().get(&id).cloned());
        let mut pending: Vec<_> = pending.collect();
        if pending.len() <= nodes.len() - nodes.needed {
            return Ok(());
        }
        let failures = pending.iter_mut().filter_map(|it| it.borrow_and_update().clone());
        let failures: Vec<StoreError> = failures.collect();
        if let Some(refusal) = nodes.refusal(name.as_str(), &failures) {
            return Err(refusal.maybe_executed());
        }
        // Each node replies now and then, until its cleanup is done.
        let _ = select_all(pending.iter_mut().map(|it| Box::pin(it.changed()))).await;
    }
}

/// Asks one node until it answers, but not while the node is away. Passes its first reply on.
async fn retry_until_answered(
    nodes: &Nodes,
    mut cleanup: PendingCleanup,
    operation: Operation,
    until: Instant,
) {
    let mut first = cleanup.first.take();
    // The caller may have gone.
    let mut pass_on = |reply| first.take().is_some_and(|first| first.send(reply).is_ok());
    let mut backoff = Backoff::new(BACKOFF, Jitter::new(seed()));
    let is_too_much = cleanup.node.cleanups.lock().len() > MAX_PENDING;
    loop {
        let mut one = FanOut::new(nodes, nodes.clock.now() + nodes.patience());
        one.ask(cleanup.index, operation.clone());
        let Some(reply) = one.next().await else { return };
        let again = nodes.clock.now() + backoff.next_delay();
        // A missing right may be given back.
        let failure = reply.1.as_ref().err().filter(|error| may_pass(error.kind()));
        let Some(failure) = failure.filter(|_| !is_too_much && again < until).cloned() else {
            // The caller that gets the reply may send the attempt again, and end it again.
            drop(cleanup);
            pass_on(reply);
            return;
        };
        cleanup.failure.send_replace(Some(failure));
        pass_on(reply);
        let pause = async {
            nodes.clock.sleep_until(again).await;
            cleanup.node.until_there().await;
        };
        if within(&*nodes.clock, until, pin!(pause)).await.is_none() {
            return;
        }
    }
}
