//! Messages about a name, published at several nodes.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::select_all;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{BoxFuture, LockName, StoreError};

use super::nodes::Nodes;
use crate::background;
use crate::store::Subscription;

/// The message that a name has become free.
const FREE: &str = "free";

/// The number of nodes at which a message is published, and at which a waiter subscribes: 2. So no
/// waiter misses messages if one node dies, and an awaited name costs two connections, not one for
/// each node.
const PUBSUB_NODES: usize = 2;

/// The nodes in this name's order of preference, which is the same for all clients.
fn order(nodes: &Nodes, name: &LockName) -> impl Iterator<Item = usize> {
    let bytes = name.as_str().bytes();
    let first = bytes.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let count = nodes.len();
    (0..count).map(move |offset| (first % count + offset) % count)
}

/// Publishes a message at the first nodes that accept it.
pub(super) async fn publish(
    nodes: &Nodes,
    name: &LockName,
    message: &str,
) -> Result<(), StoreError> {
    let mut order = order(nodes, name);
    let publish =
        |index: usize| nodes.in_time(nodes.nodes[index].store.inner.publish(name, message));
    let mut publishing: FuturesUnordered<_> =
        order.by_ref().take(PUBSUB_NODES).map(publish).collect();
    let (mut published, mut failure) = (0, None);
    while let Some(outcome) = publishing.next().await {
        match outcome {
            Ok(()) => published += 1,
            Err(error) => {
                failure = Some(error);
                publishing.extend(order.next().map(publish));
            }
        }
    }
    match failure {
        Some(error) if published == 0 => Err(error),
        Some(_) | None => Ok(()),
    }
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

/// Subscribes to a name at the first nodes that can be reached.
pub(super) async fn subscribe(
    nodes: &Nodes,
    name: &LockName,
) -> Result<Option<Box<dyn Subscription>>, StoreError> {
    let mut order = order(nodes, name);
    let subscribe = |index: usize| nodes.in_time(nodes.nodes[index].store.inner.subscribe(name));
    let mut opening: FuturesUnordered<_> =
        order.by_ref().take(PUBSUB_NODES).map(subscribe).collect();
    let (mut open, mut failure) = (Vec::new(), None);
    while let Some(outcome) = opening.next().await {
        match outcome {
            Ok(Some(subscription)) => open.push(subscription),
            Ok(None) => opening.extend(order.next().map(subscribe)),
            Err(error) => {
                failure = Some(error);
                opening.extend(order.next().map(subscribe));
            }
        }
    }
    match (open.is_empty(), failure) {
        (true, Some(error)) => Err(error),
        (true, None) => Ok(None),
        (false, _) => Ok(Some(Box::new(Subscriptions(open)))),
    }
}

/// Subscriptions at several nodes as one. Each message arrives once from each of them.
struct Subscriptions(Vec<Box<dyn Subscription>>);

impl Subscription for Subscriptions {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { select_all(self.0.iter_mut().map(|open| open.next())).await.0 })
    }
}
