//! The inboxes of a client at all nodes, as one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{BoxFuture, ClientId, FencingToken, Message, StoreError};

use super::nodes::Nodes;
use crate::store::Inbox;

/// The first and the longest delay before an inbox that could not be opened is tried again.
const REOPEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The largest number of revocations that are counted at the same time.
const MAX_COUNTED: usize = 64;

/// Opens the inbox of a client on all nodes. One open inbox is enough.
pub(super) async fn open(
    nodes: &Arc<Nodes>,
    client: ClientId,
) -> Result<Box<dyn Inbox>, StoreError> {
    let opening = (0..nodes.len()).map(|index| open_at(nodes, client, index));
    let (mut inboxes, mut failure, mut is_open) = (Vec::new(), None, false);
    for (index, outcome) in join_all(opening).await.into_iter().enumerate() {
        let mut inbox = NodeInbox::new(nodes, client, index);
        match outcome {
            Ok(open) => (inbox.state, is_open) = (InboxState::Open(open), true),
            Err(error) => failure = Some(error),
        }
        inboxes.push(inbox);
    }
    match failure {
        Some(error) if !is_open => Err(error),
        Some(_) | None => {
            let revocations = Revocations { needed: nodes.needed, counted: Vec::new() };
            Ok(Box::new(Inboxes { inboxes, revocations }))
        }
    }
}

async fn open_at(
    nodes: &Nodes,
    client: ClientId,
    index: usize,
) -> Result<Box<dyn Inbox>, StoreError> {
    nodes.in_time(nodes.nodes[index].store.inner.inbox(client)).await
}

/// The inbox of one node, which may have to be opened first.
struct NodeInbox {
    nodes: Arc<Nodes>,
    client: ClientId,
    index: usize,
    state: InboxState,
    backoff: Backoff,
    jitter: Jitter,
}

enum InboxState {
    Open(Box<dyn Inbox>),
    Opening(BoxFuture<'static, Result<Box<dyn Inbox>, StoreError>>),
}

impl NodeInbox {
    /// The inbox of a node that could not be opened just now.
    fn new(nodes: &Arc<Nodes>, client: ClientId, index: usize) -> Self {
        let (first, longest) = REOPEN;
        let (mut backoff, mut jitter) = (Backoff::new(first, longest), Jitter::new(nodes.seed()));
        let delay = backoff.next_delay(&mut jitter);
        let state = InboxState::opening(nodes, client, index, delay);
        Self { nodes: Arc::clone(nodes), client, index, state, backoff, jitter }
    }
}

impl InboxState {
    fn opening(nodes: &Arc<Nodes>, client: ClientId, index: usize, delay: Duration) -> Self {
        let nodes = Arc::clone(nodes);
        let at = nodes.clock.now() + delay;
        Self::Opening(Box::pin(async move {
            nodes.clock.sleep_until(at).await;
            open_at(&nodes, client, index).await
        }))
    }
}

impl Inbox for NodeInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let opened = match &mut self.state {
                    InboxState::Open(inbox) => return inbox.next().await,
                    InboxState::Opening(opening) => opening.await,
                };
                match opened {
                    Ok(inbox) => {
                        self.state = InboxState::Open(inbox);
                        return Message::Gap;
                    }
                    Err(_) => {
                        let delay = self.backoff.next_delay(&mut self.jitter);
                        self.state =
                            InboxState::opening(&self.nodes, self.client, self.index, delay);
                    }
                }
            }
        })
    }
}

/// The inboxes of all nodes as one.
struct Inboxes {
    inboxes: Vec<NodeInbox>,
    revocations: Revocations,
}

/// Revocations that some nodes have sent, each with the numbers of these nodes.
struct Revocations {
    needed: usize,
    counted: Vec<(u64, FencingToken, Vec<usize>)>,
}

impl Revocations {
    /// A revocation counts once a majority has sent it: one node alone ends no lease.
    fn count(&mut self, index: usize, attempt: u64, token: FencingToken) -> bool {
        let found = self.counted.iter().position(|(a, t, _)| (*a, *t) == (attempt, token));
        let at = found.unwrap_or_else(|| {
            if self.counted.len() == MAX_COUNTED {
                self.counted.remove(0);
            }
            self.counted.push((attempt, token, Vec::new()));
            self.counted.len() - 1
        });
        let senders = &mut self.counted[at].2;
        if !senders.contains(&index) {
            senders.push(index);
        }
        let is_enough = senders.len() >= self.needed;
        if is_enough {
            self.counted.remove(at);
        }
        is_enough
    }
}

impl Inbox for Inboxes {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let (message, index, _) =
                    select_all(self.inboxes.iter_mut().map(Inbox::next)).await;
                match message {
                    Message::Revoked { attempt, token, .. } => {
                        if self.revocations.count(index, attempt, token) {
                            return message;
                        }
                    }
                    _ => return message,
                }
            }
        })
    }
}
