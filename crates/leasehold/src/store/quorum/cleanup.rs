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
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{Action, HolderId, Instant, LockName, Operation, StoreError};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::fan_out::FanOut;
use super::leases::LATEST;
use super::node::{Listener, Node, NodeReply, Result, seed};
use super::nodes::Nodes;
use crate::background;
use crate::clock::within;
use crate::replies::may_pass;
use crate::store::clocked::TimedAnswer;

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
    is_pending: bool,
}

impl PendingCleanup {
    /// Adds the cleanup, with a listener for its answers. Returns `None` if it is pending already.
    fn add(nodes: &Nodes, index: usize, id: HolderId, listener: &Listener) -> Option<Self> {
        let node = Arc::clone(&nodes.nodes[index]);
        let mut pending = node.cleanups.lock();
        let is_new = !pending.contains_key(&id);
        pending.entry(id).or_default().push(listener.clone());
        drop(pending);
        is_new.then_some(Self { node, index, id, is_pending: true })
    }

    /// Passes an answer on. A cleanup that is done is removed before that: the caller that gets the
    /// answer may send the attempt again, and end it again.
    fn answered(&mut self, outcome: &Result<TimedAnswer>, is_done: bool) {
        self.is_pending = !is_done;
        let mut pending = self.node.cleanups.lock();
        let listeners = match is_done {
            true => pending.remove(&self.id),
            false => pending.get_mut(&self.id).map(std::mem::take),
        };
        drop(pending);
        for listener in listeners.into_iter().flatten() {
            // The send fails if the listener has a majority already.
            let _ = listener.send((self.index, outcome.clone()));
        }
    }
}

impl Drop for PendingCleanup {
    fn drop(&mut self) {
        if self.is_pending {
            self.node.cleanups.lock().remove(&self.id);
        }
    }
}

/// Sends an action to each of some nodes, again and again until it is answered or no longer
/// matters. It no longer matters once the ttl has ended the hold, and [`LATEST`] is over. Returns a
/// channel with the next reply of each node.
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
    let mut errors = vec![None; nodes.len()];
    loop {
        let (sender, mut answers) = mpsc::unbounded_channel();
        let mut pending = 0;
        for node in &nodes.nodes {
            if let Some(listeners) = node.cleanups.lock().get_mut(&id) {
                listeners.retain(|listener| !listener.is_closed());
                listeners.push(sender.clone());
                pending += 1;
            }
        }
        drop(sender);
        if pending <= nodes.len() - nodes.needed {
            return Ok(());
        }
        // Each node replies now and then, until its cleanup is done.
        let mut answer = answers.recv().await;
        while let Some((index, outcome)) = answer {
            errors[index] = outcome.err();
            answer = answers.try_recv().ok();
        }
        let errors: Vec<StoreError> = errors.iter().flatten().cloned().collect();
        if let Some(refusal) = nodes.refusal(name.as_str(), &errors) {
            return Err(refusal.maybe_executed());
        }
    }
}

/// Asks one node until it answers, but not while the node is away.
async fn retry_until_answered(
    nodes: &Nodes,
    mut cleanup: PendingCleanup,
    operation: Operation,
    until: Instant,
) {
    let mut backoff = Backoff::new(BACKOFF, Jitter::new(seed()));
    let is_too_much = cleanup.node.cleanups.lock().len() > MAX_PENDING;
    loop {
        let mut one = FanOut::new(nodes, nodes.clock.now() + nodes.patience());
        one.ask(cleanup.index, operation.clone());
        let Some((_, outcome)) = one.next().await else { return };
        // A missing right may be given back.
        let answered = outcome.as_ref().map_or_else(|error| !may_pass(error.kind()), |_| true);
        let again = nodes.clock.now() + backoff.next_delay();
        let is_done = answered || is_too_much || again >= until;
        cleanup.answered(&outcome, is_done);
        if is_done {
            return;
        }
        let pause = async {
            nodes.clock.sleep_until(again).await;
            cleanup.node.until_there().await;
        };
        if within(&*nodes.clock, until, pin!(pause)).await.is_none() {
            return;
        }
    }
}
