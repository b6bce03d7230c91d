//! The inbox of a client in a cluster: it listens at several primaries.
//!
//! A message that is published at one node reaches all nodes, so a client could listen at a single
//! node. But most messages would then come by the bus, which costs one more hop, and sometimes 40
//! ms. The primary that serves a name publishes its hand-overs, and a client that listens there
//! gets them immediately. The same message then comes again from other nodes, and is ignored: a
//! grant is taken only once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, pending, select_all};
use leasehold_core::{BoxFuture, Message, StoreError};
use tokio::time::timeout;

use super::message;
use super::subscription::ChannelSubscription;
use crate::store::Inbox;
use crate::store::redis::options::Address;
use crate::store::redis::topology::Topology;
use crate::store::warnings::Warnings;

/// The interval at which the subscriptions are compared with the primaries: one second, the
/// interval at which waiters ask by themselves.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

/// The inbox for the messages of one client, from several primaries.
pub(crate) struct ClusterInbox {
    topology: Arc<Topology>,
    warnings: Arc<Warnings>,
    channel: Vec<u8>,
    open: Vec<ChannelSubscription>,
}

impl ClusterInbox {
    /// Subscribes at these nodes. Once this has returned, at least one subscription is active. A
    /// subscription that is not active yet will first deliver a gap.
    pub(crate) async fn open(
        topology: Arc<Topology>,
        warnings: Arc<Warnings>,
        channel: Vec<u8>,
        nodes: Vec<Address>,
    ) -> Result<Self, StoreError> {
        let mut inbox = Self { topology, warnings, channel, open: Vec::new() };
        inbox.follow(nodes);
        let mut outcomes = join_all(inbox.open.iter_mut().map(ChannelSubscription::open)).await;
        if !outcomes.is_empty() && outcomes.iter().all(Result::is_err) {
            outcomes.swap_remove(0)?;
        }
        Ok(inbox)
    }

    /// Listens at these nodes from now on.
    fn follow(&mut self, nodes: Vec<Address>) {
        self.open.retain(|channel| channel.node().is_some_and(|node| nodes.contains(node)));
        for node in nodes {
            if self.open.iter().all(|channel| channel.node() != Some(&node)) {
                let (topology, warnings) = (Arc::clone(&self.topology), Arc::clone(&self.warnings));
                self.open.push(ChannelSubscription::new(
                    topology,
                    warnings,
                    self.channel.clone().into(),
                    Some(node),
                ));
            }
        }
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            self.follow(self.topology.subscribed_nodes().unwrap_or_default());
            let received = async {
                match self.open.is_empty() {
                    true => pending().await,
                    false => {
                        let channels = self.open.iter_mut();
                        select_all(channels.map(|channel| Box::pin(channel.receive()))).await.0
                    }
                }
            };
            if let Ok(payload) = timeout(COMPARE_EVERY, received).await {
                return payload;
            }
        }
    }
}

impl Inbox for ClusterInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                if let Some(message) = message(self.receive().await) {
                    return message;
                }
            }
        })
    }
}
