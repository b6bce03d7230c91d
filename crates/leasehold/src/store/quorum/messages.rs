//! Messages: the inboxes of a client at all nodes, and what is published about a name at some.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select, select_all};
use futures_util::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt as _, unfold};
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{BoxFuture, ClientId, Clock, Instant, LockName, Message};

use super::node::{Result, seed};
use super::nodes::Nodes;
use crate::background;
use crate::store::{Inbox, Subscribed, Subscription};

/// The first and the longest delay before an inbox that could not be opened is tried again.
const REOPEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The time in which messages of the nodes are one gap: 100 ms. So a majority has done what the
/// first message tells of, and a node that floods makes no client ask more often.
const TOGETHER: Duration = Duration::from_millis(100);

/// The message that a name has become free.
const FREE: &str = "free";

/// Opens the inbox of a client on all nodes. One open inbox is enough.
pub(super) async fn inbox(nodes: &Arc<Nodes>, client: ClientId) -> Result<Box<dyn Inbox>> {
    let opening = (0..nodes.len()).map(|index| open_at(nodes, client, index));
    let clock = Arc::clone(&nodes.clock);
    let mut inboxes = Inboxes { messages: SelectAll::new(), gap_at: None, clock };
    let (mut failure, mut is_open) = (None, false);
    for (index, opened) in join_all(opening).await.into_iter().enumerate() {
        is_open |= opened.is_ok();
        let inbox = opened.map_err(|error| failure = Some(error)).ok();
        inboxes.messages.push(messages(nodes, client, index, inbox));
    }
    match failure {
        Some(error) if !is_open => Err(error),
        Some(_) | None => Ok(Box::new(inboxes)),
    }
}

async fn open_at(nodes: &Nodes, client: ClientId, index: usize) -> Result<Box<dyn Inbox>> {
    nodes.in_time(nodes.nodes[index].store.inner.inbox(client)).await
}

/// An item for each message of one node, whose inbox may have to be opened first.
fn messages(
    nodes: &Arc<Nodes>,
    client: ClientId,
    index: usize,
    inbox: Option<Box<dyn Inbox>>,
) -> BoxStream<'static, ()> {
    let state = (inbox, Backoff::new(REOPEN, Jitter::new(seed())));
    let nodes = Arc::clone(nodes);
    let next = move |(mut inbox, mut backoff): (Option<Box<dyn Inbox>>, Backoff)| {
        let nodes = Arc::clone(&nodes);
        async move {
            while inbox.is_none() {
                nodes.clock.sleep_until(nodes.clock.now() + backoff.next_delay()).await;
                inbox = open_at(&nodes, client, index).await.ok();
                if inbox.is_some() {
                    return Some(((), (inbox, backoff)));
                }
            }
            if let Some(open) = &mut inbox {
                open.next().await;
            }
            Some(((), (inbox, backoff)))
        }
    };
    unfold(state, next).boxed()
}

/// The inboxes of all nodes as one. A message of one node ends no lease, so messages are a gap: the
/// client asks a majority.
struct Inboxes {
    messages: SelectAll<BoxStream<'static, ()>>,
    /// When the gap is reported that has begun with a message.
    gap_at: Option<Instant>,
    clock: Arc<dyn Clock>,
}

impl Inbox for Inboxes {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            if self.gap_at.is_none() {
                self.messages.next().await;
                self.gap_at = Some(self.clock.now() + TOGETHER);
            }
            let end = self.clock.sleep_until(self.gap_at.unwrap_or_default());
            let rest = async {
                while self.messages.next().await.is_some() {
                    tokio::task::consume_budget().await;
                }
            };
            select(end, pin!(rest)).await;
            self.gap_at = None;
            Message::Gap
        })
    }
}

/// Publishes a message at all nodes. One that accepts it is enough.
pub(super) async fn publish(nodes: &Nodes, name: &LockName, message: &str) -> Result<()> {
    let told =
        nodes.nodes.iter().map(|node| nodes.in_time(node.store.inner.publish(name, message)));
    let told = join_all(told).await.into_iter();
    told.reduce(Result::or).unwrap_or(Ok(()))
}

/// Publishes that a name is free, in the background. It is a hint: if no node accepts it, waiters
/// find out by polling.
pub(super) fn publish_release(nodes: &Arc<Nodes>, name: &LockName) {
    let (all, name) = (Arc::clone(nodes), name.clone());
    let publishing = async move {
        let _ = publish(&all, &name, FREE).await;
    };
    let _ = background::spawn(&*nodes.clock, Box::pin(publishing));
}

/// Subscribes to a name at the first nodes that can be reached, a majority if there is one. So a
/// message arrives although any minority of the nodes has died since.
///
/// # Errors
///
/// If no node gives a subscription, and one of them fails.
pub(super) async fn subscribe(nodes: &Nodes, name: &LockName) -> Subscribed {
    let mut order = 0..nodes.len();
    let ask = |index: usize| nodes.in_time(nodes.nodes[index].store.inner.subscribe(name));
    let mut asking: FuturesUnordered<_> = order.by_ref().take(nodes.needed).map(ask).collect();
    let (mut open, mut failure) = (Vec::new(), None);
    while let Some(outcome) = asking.next().await {
        match outcome {
            Ok(Some(subscription)) => {
                open.push(subscription);
                continue;
            }
            Ok(None) => {}
            Err(error) => failure = Some(error),
        }
        asking.extend(order.next().map(ask));
    }
    match failure {
        Some(error) if open.is_empty() => Err(error),
        _ => Ok((!open.is_empty()).then(|| Box::new(Subscriptions(open)) as Box<dyn Subscription>)),
    }
}

/// Subscriptions at several nodes as one. Each message arrives once from each of them.
struct Subscriptions(Vec<Box<dyn Subscription>>);

impl Subscription for Subscriptions {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { select_all(self.0.iter_mut().map(|open| open.next())).await.0 })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::stream::repeat;
    use leasehold_core::FakeClock;

    use super::*;

    #[tokio::test]
    async fn a_node_that_floods_makes_the_client_ask_once_in_a_while() {
        let clock = FakeClock::new();
        let messages = SelectAll::from_iter([repeat(()).boxed()]);
        let mut inboxes = Inboxes { messages, gap_at: None, clock: Arc::new(clock.clone()) };
        for _ in 0..3 {
            let mut next = inboxes.next();
            assert_eq!((&mut next).now_or_never(), None, "messages have only begun to come");
            clock.advance(TOGETHER);
            assert_eq!(next.await, Message::Gap);
        }
    }
}
