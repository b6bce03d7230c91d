//! Ending what nodes hold or may hold, also on those that do not answer now.
//!
//! It is done by the background thread, because it must go on when whoever asked for it has gone,
//! runtime and all. An attempt is owed its end once by each node: whoever asks for that again
//! waits for the same answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::Backoff;
use leasehold_core::model::NOT_AFTER;
use leasehold_core::{Action, HolderId, Instant, LockName, Operation, StoreError, StoreErrorKind};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::Nodes;
use super::asking::Heard;
use super::node::Node;
use crate::background;
use crate::store::clocked::TimedAnswer;

/// First and longest delay before a node that did not answer is asked again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Most ends that are owed by one node: 10 000, some megabytes. What comes on top is asked for
/// once, and then ends by its deadline.
const MOST_OWED: usize = 10_000;

type Listeners = Vec<UnboundedSender<Heard>>;

/// What one node has yet to be told is over, and who waits for its answer.
#[derive(Debug, Default)]
pub(super) struct Owed(Mutex<HashMap<HolderId, Listeners>>);

impl Owed {
    fn entries(&self) -> MutexGuard<'_, HashMap<HolderId, Listeners>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the end of this attempt is owed.
    pub(super) fn contains(&self, id: HolderId) -> bool {
        self.entries().contains_key(&id)
    }
}

/// One end that is owed. It is not any more once this is dropped.
struct Debt {
    node: Arc<Node>,
    index: usize,
    id: HolderId,
    is_open: bool,
}

impl Debt {
    /// Enters it with whoever waits for an answer; `None` if it is owed already.
    fn enter(
        nodes: &Nodes,
        index: usize,
        id: HolderId,
        sender: &UnboundedSender<Heard>,
    ) -> Option<Self> {
        let node = Arc::clone(&nodes.nodes[index]);
        match node.owed.entries().entry(id) {
            Entry::Occupied(mut listeners) => {
                listeners.get_mut().push(sender.clone());
                return None;
            }
            Entry::Vacant(listeners) => drop(listeners.insert(vec![sender.clone()])),
        }
        Some(Self { node, index, id, is_open: true })
    }

    /// Tells those who wait. An end that is done is forgotten before: whoever hears of it may ask
    /// for the attempt anew, and for its end.
    fn tell(&mut self, outcome: &Result<TimedAnswer, StoreError>, is_done: bool) {
        self.is_open = !is_done;
        let listeners = {
            let mut entries = self.node.owed.entries();
            match is_done {
                true => entries.remove(&self.id),
                false => entries.get_mut(&self.id).map(std::mem::take),
            }
        };
        for listener in listeners.into_iter().flatten() {
            // Whoever asked may have heard enough.
            let _ = listener.send((self.index, outcome.clone()));
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if self.is_open {
            self.node.owed.entries().remove(&self.id);
        }
    }
}

/// Sends an action to each of some nodes, again and again until it is answered or does not matter
/// any more: after the ttl the hold has ended, and after [`NOT_AFTER`] no late copy of its acquire
/// is granted. Gives what each node says next, or that it said nothing.
pub(super) fn start(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    actions: Vec<(usize, Action)>,
    ttl: Duration,
) -> Result<UnboundedReceiver<Heard>, StoreError> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let enter = |(index, action)| Some((Debt::enter(nodes, index, id, &sender)?, action));
    let debts: Vec<(Debt, Action)> = actions.into_iter().filter_map(enter).collect();
    if debts.is_empty() {
        return Ok(receiver);
    }
    let until = nodes.clock.now() + ttl.max(NOT_AFTER);
    let (council, name) = (Arc::clone(nodes), name.clone());
    let task = async move {
        let each = debts.into_iter().map(|(debt, action)| {
            let operation = Operation::On { name: name.clone(), action };
            insist(&council, debt, operation, until)
        });
        each.collect::<FuturesUnordered<_>>().collect::<()>().await;
    };
    background::spawn(&*nodes.clock, Box::pin(task))?;
    Ok(receiver)
}

/// Waits until nobody owes the end of an attempt any more.
pub(super) async fn until_done(nodes: &Nodes, id: HolderId) {
    loop {
        let (sender, mut answers) = mpsc::unbounded_channel();
        for node in &nodes.nodes {
            if let Some(listeners) = node.owed.entries().get_mut(&id) {
                listeners.push(sender.clone());
            }
        }
        drop(sender);
        if answers.recv().await.is_none() {
            return;
        }
        // Each says something now and then, until it is done.
        while answers.recv().await.is_some() {}
    }
}

/// Asks one node until it answers; not while it is away.
async fn insist(nodes: &Nodes, mut debt: Debt, operation: Operation, until: Instant) {
    let (first, longest) = BACKOFF;
    let mut backoff = Backoff::new(first, longest);
    let is_too_much = debt.node.owed.entries().len() > MOST_OWED;
    loop {
        let outcome = ask(nodes, &debt.node, operation.clone()).await;
        let answered = outcome.as_ref().map_or_else(|error| !error.kind().is_transient(), |_| true);
        let again = nodes.clock.now() + nodes.delay(&mut backoff);
        let is_done = answered || is_too_much || again >= until;
        debt.tell(&outcome, is_done);
        if is_done {
            return;
        }
        let pause = async {
            nodes.clock.sleep_until(again).await;
            debt.node.until_there().await;
        };
        if let Either::Right(_) =
            select(std::pin::pin!(pause), nodes.clock.sleep_until(until)).await
        {
            return;
        }
    }
}

async fn ask(
    nodes: &Nodes,
    node: &Arc<Node>,
    operation: Operation,
) -> Result<TimedAnswer, StoreError> {
    let sent = nodes.clock.now();
    let asking = std::pin::pin!(node.ask(operation));
    match select(asking, nodes.clock.sleep_until(sent + nodes.patience())).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => {
            node.did_not_answer(sent);
            let why = "it did not answer in time";
            Err(StoreError::new(StoreErrorKind::Timeout, why).maybe_executed())
        }
    }
}
