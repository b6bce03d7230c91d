//! Ending what nodes hold or may hold, also on those that do not answer now.
//!
//! It is done by the background thread, because it must go on when whoever asked for it has gone,
//! runtime and all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::Backoff;
use leasehold_core::model::NOT_AFTER;
use leasehold_core::{Action, Instant, LockName, Operation, StoreError, StoreErrorKind};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::Nodes;
use super::asking::Heard;
use super::node::Told;
use crate::background;

/// First and longest delay before a node that did not answer is asked again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Sends an action to each of some nodes, again and again until it is answered or does not matter
/// any more: after the ttl the hold has ended, and after [`NOT_AFTER`] no late copy of its acquire
/// is granted. Gives what each node said, or that it said nothing the first time.
pub(super) fn start(
    nodes: &Arc<Nodes>,
    name: &LockName,
    actions: Vec<(usize, Action)>,
    ttl: Duration,
) -> Result<UnboundedReceiver<Heard>, StoreError> {
    let (sender, receiver) = mpsc::unbounded_channel();
    if actions.is_empty() {
        return Ok(receiver);
    }
    let until = nodes.clock.now() + ttl.max(NOT_AFTER);
    let (council, name) = (Arc::clone(nodes), name.clone());
    let task = async move {
        let each = actions.into_iter().map(|(index, action)| {
            let operation = Operation::On { name: name.clone(), action };
            insist(&council, index, operation, until, sender.clone())
        });
        each.collect::<FuturesUnordered<_>>().collect::<()>().await;
    };
    background::spawn(&*nodes.clock, Box::pin(task))?;
    Ok(receiver)
}

/// Asks one node until it answers.
async fn insist(
    nodes: &Nodes,
    index: usize,
    operation: Operation,
    until: Instant,
    sender: UnboundedSender<Heard>,
) {
    let (first, longest) = BACKOFF;
    let mut backoff = Backoff::new(first, longest);
    let mut is_first = true;
    loop {
        let outcome = ask(nodes, index, operation.clone()).await;
        let is_done = outcome.as_ref().map_or_else(|error| !may_pass(error), |_| true);
        if is_first || is_done {
            // Whoever asked may have heard enough.
            let _ = sender.send((index, outcome));
        }
        is_first = false;
        let again = nodes.clock.now() + nodes.delay(&mut backoff);
        if is_done || again >= until {
            return;
        }
        nodes.clock.sleep_until(again).await;
    }
}

async fn ask(nodes: &Nodes, index: usize, operation: Operation) -> Result<Told, StoreError> {
    let (node, clock) = (&nodes.nodes[index], &*nodes.clock);
    let sent = clock.now();
    let asking = std::pin::pin!(node.ask(clock, operation));
    match select(asking, clock.sleep_until(sent + nodes.patience())).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => {
            node.did_not_answer(sent);
            let why = "it did not answer in time";
            Err(StoreError::new(StoreErrorKind::Timeout, why).maybe_executed())
        }
    }
}

fn may_pass(error: &StoreError) -> bool {
    error.may_have_executed() || error.kind().is_transient()
}
