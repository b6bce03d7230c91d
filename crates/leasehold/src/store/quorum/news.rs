//! News of names, and the messages of clients, over several nodes.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select, select_all};
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{
    BoxFuture, ClientId, FencingToken, LockName, Message, StoreError, StoreErrorKind,
};

use super::Nodes;
use crate::store::{Inbox, Subscription};

/// What is told when a name has become free.
pub(super) const FREE: &str = "free";

/// On how many nodes news are told, and on how many they are listened to: 2, so that one that dies
/// deafens nobody, and a name that is waited for costs two connections, not one for each node.
const NEWS_NODES: usize = 2;

/// The nodes in the order in which this name prefers them, the same for everybody.
fn order(nodes: &Nodes, name: &LockName) -> impl Iterator<Item = usize> {
    let bytes = name.as_str().bytes();
    let first = bytes.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let count = nodes.len();
    (0..count).map(move |offset| (first % count + offset) % count)
}

/// Ends what takes too long.
async fn in_time<T>(
    nodes: &Nodes,
    asking: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timer = nodes.clock.sleep_until(nodes.clock.now() + nodes.patience());
    match select(std::pin::pin!(asking), timer).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => {
            Err(StoreError::new(StoreErrorKind::Timeout, "it did not answer in time"))
        }
    }
}

/// Tells the news of a name on the first nodes that take them.
pub(super) async fn tell(nodes: &Nodes, name: &LockName, news: &str) -> Result<(), StoreError> {
    let mut order = order(nodes, name);
    let tell = |index: usize| in_time(nodes, nodes.nodes[index].store.inner.publish(name, news));
    let mut telling: FuturesUnordered<_> = order.by_ref().take(NEWS_NODES).map(tell).collect();
    let (mut told, mut failure) = (0, None);
    while let Some(outcome) = telling.next().await {
        match outcome {
            Ok(()) => told += 1,
            Err(error) => {
                failure = Some(error);
                telling.extend(order.next().map(tell));
            }
        }
    }
    match failure {
        Some(error) if told == 0 => Err(error),
        Some(_) | None => Ok(()),
    }
}

/// Listens to the news of a name on the first nodes that are there.
pub(super) async fn listen(
    nodes: &Nodes,
    name: &LockName,
) -> Result<Option<Box<dyn Subscription>>, StoreError> {
    let mut order = order(nodes, name);
    let listen = |index: usize| in_time(nodes, nodes.nodes[index].store.inner.subscribe(name));
    let mut opening: FuturesUnordered<_> = order.by_ref().take(NEWS_NODES).map(listen).collect();
    let (mut lines, mut failure) = (Vec::new(), None);
    while let Some(outcome) = opening.next().await {
        match outcome {
            Ok(Some(line)) => lines.push(line),
            Ok(None) => opening.extend(order.next().map(listen)),
            Err(error) => {
                failure = Some(error);
                opening.extend(order.next().map(listen));
            }
        }
    }
    match (lines.is_empty(), failure) {
        (true, Some(error)) => Err(error),
        (true, None) => Ok(None),
        (false, _) => Ok(Some(Box::new(Lines(lines)))),
    }
}

/// News that are told several times.
struct Lines(Vec<Box<dyn Subscription>>);

impl Subscription for Lines {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            let (news, ..) = select_all(self.0.iter_mut().map(|line| line.next())).await;
            news
        })
    }
}

/// First and longest delay before an inbox that could not be opened is tried again.
const REOPEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Most revocations that are counted at once.
const MOST_COUNTED: usize = 64;

/// Opens the inbox of a client on all nodes; one that is there is enough.
pub(super) async fn inbox(
    nodes: &std::sync::Arc<Nodes>,
    client: ClientId,
) -> Result<Box<dyn Inbox>, StoreError> {
    let open = |index: usize| async move {
        (index, in_time(nodes, nodes.nodes[index].store.inner.inbox(client)).await)
    };
    let mut opening: FuturesUnordered<_> = (0..nodes.len()).map(open).collect();
    let (mut slots, mut failure) = (Vec::new(), None);
    while let Some((index, outcome)) = opening.next().await {
        let line = match outcome {
            Ok(inbox) => Line::Open(inbox),
            Err(error) => {
                failure = Some(error);
                Line::Closed
            }
        };
        let (first, longest) = REOPEN;
        slots.push(Slot { index, line, backoff: Backoff::new(first, longest) });
    }
    match failure {
        Some(error) if !slots.iter().any(|slot| matches!(slot.line, Line::Open(_))) => Err(error),
        Some(_) | None => {
            let jitter = Jitter::new(nodes.seed());
            let nodes = std::sync::Arc::clone(nodes);
            Ok(Box::new(Inboxes { nodes, client, slots, counted: Vec::new(), jitter }))
        }
    }
}

type Opening = BoxFuture<'static, Result<Box<dyn Inbox>, StoreError>>;

enum Line {
    Closed,
    Open(Box<dyn Inbox>),
    Opening(Opening),
}

/// The inbox of one node.
struct Slot {
    index: usize,
    line: Line,
    backoff: Backoff,
}

/// The inboxes of all nodes as one.
struct Inboxes {
    nodes: std::sync::Arc<Nodes>,
    client: ClientId,
    slots: Vec<Slot>,
    /// Revocations that some nodes have told of.
    counted: Vec<(u64, FencingToken, Vec<usize>)>,
    jitter: Jitter,
}

impl Inboxes {
    /// A revocation counts once a majority has told of it: one node alone ends no lease.
    fn is_revoked(&mut self, index: usize, attempt: u64, token: FencingToken) -> bool {
        let found = self.counted.iter().position(|(a, t, _)| (*a, *t) == (attempt, token));
        let at = found.unwrap_or_else(|| {
            if self.counted.len() == MOST_COUNTED {
                self.counted.remove(0);
            }
            self.counted.push((attempt, token, Vec::new()));
            self.counted.len() - 1
        });
        let tellers = &mut self.counted[at].2;
        if !tellers.contains(&index) {
            tellers.push(index);
        }
        let is_enough = tellers.len() >= self.nodes.needed;
        if is_enough {
            self.counted.remove(at);
        }
        is_enough
    }

    /// Opens again what is closed.
    fn mend(&mut self) {
        for slot in &mut self.slots {
            if !matches!(slot.line, Line::Closed) {
                continue;
            }
            let (nodes, client, index) = (self.nodes.clone(), self.client, slot.index);
            let at = nodes.clock.now() + slot.backoff.next_delay(&mut self.jitter);
            slot.line = Line::Opening(Box::pin(async move {
                nodes.clock.sleep_until(at).await;
                in_time(&nodes, nodes.nodes[index].store.inner.inbox(client)).await
            }));
        }
    }
}

/// What one line has to say.
enum Said {
    Message(Message),
    Opened(Result<Box<dyn Inbox>, StoreError>),
}

impl Slot {
    fn next(&mut self) -> BoxFuture<'_, Said> {
        match &mut self.line {
            Line::Closed => Box::pin(std::future::pending()),
            Line::Open(inbox) => Box::pin(async { Said::Message(inbox.next().await) }),
            Line::Opening(opening) => Box::pin(async { Said::Opened(opening.await) }),
        }
    }
}

impl Inbox for Inboxes {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                self.mend();
                let (said, at, _) = select_all(self.slots.iter_mut().map(Slot::next)).await;
                let index = self.slots[at].index;
                match said {
                    Said::Message(Message::Revoked { attempt, nonce, token, forced }) => {
                        if self.is_revoked(index, attempt, token) {
                            return Message::Revoked { attempt, nonce, token, forced };
                        }
                    }
                    Said::Message(message) => return message,
                    Said::Opened(Ok(inbox)) => {
                        self.slots[at].line = Line::Open(inbox);
                        self.slots[at].backoff.reset();
                        return Message::Gap;
                    }
                    Said::Opened(Err(_)) => self.slots[at].line = Line::Closed,
                }
            }
        })
    }
}
