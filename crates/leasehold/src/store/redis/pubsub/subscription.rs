//! Subscriptions to the channel of a client or of a name, each on a separate connection.
//!
//! These connections carry no requests, because a server treats subscribed connections as a
//! separate class, and closes a connection whose client reads too slowly. A failover, or an
//! operator's `CLIENT KILL TYPE pubsub`, closes all of them. No renewal must suffer from that.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{BoxFuture, Message, StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout_at};

use super::message;
use crate::store::Inbox;
use crate::store::redis::connection::Failure;
use crate::store::redis::connection::pushes::{Pushes, pushes};
use crate::store::redis::connection::{Connection, error};
use crate::store::redis::options::Address;
use crate::store::redis::topology::Topology;
use crate::store::warnings::Warnings;

/// The interval at which a quiet subscription is pinged: 5 s. Waiters ask the store themselves once
/// a second, so the ping only bounds how long they depend on asking.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The first and the longest pause between two attempts to subscribe again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The channels of a subscription.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    /// Channels whose messages reach all servers.
    pub(crate) all: Vec<Vec<u8>>,
    /// Channels whose messages stay in the part of a cluster that serves this key. That part also
    /// serves the channels.
    pub(crate) sharded: Option<(Vec<u8>, Vec<Vec<u8>>)>,
}

impl From<Vec<u8>> for Channels {
    fn from(channel: Vec<u8>) -> Self {
        Self { all: vec![channel], sharded: None }
    }
}

/// Subscribes. Once this has returned, the subscription is active at the server.
///
/// A user without the right to subscribe gets a subscription that stays silent, and a warning:
/// waiters then find out by asking. If the user loses the right later, the subscription goes on
/// trying.
pub(crate) async fn open(
    topology: Arc<Topology>,
    warnings: Arc<Warnings>,
    channels: impl Into<Channels>,
) -> Result<ChannelSubscription, StoreError> {
    let mut subscription = ChannelSubscription::new(topology, warnings, channels.into(), None);
    subscription.open().await?;
    Ok(subscription)
}

/// A subscription to some channels.
pub(crate) struct ChannelSubscription {
    topology: Arc<Topology>,
    warnings: Arc<Warnings>,
    channels: Channels,
    /// The only server at which to listen; `None` if any server will do.
    node: Option<Address>,
    backoff: Backoff,
    state: Subscribing,
}

enum Subscribing {
    /// The connection is subscribed.
    Listening(SubscribedConnection),
    /// The subscription is lost, and is being renewed. The future is kept, so that nothing is lost
    /// when the caller stops waiting for the next message.
    Mending(BoxFuture<'static, Result<SubscribedConnection, StoreError>>),
    /// The user was not allowed to subscribe when the subscription was opened.
    Silent,
}

impl ChannelSubscription {
    /// A subscription that is not active yet. Once it is active, it begins with a gap.
    pub(crate) fn new(
        topology: Arc<Topology>,
        warnings: Arc<Warnings>,
        channels: Channels,
        node: Option<Address>,
    ) -> Self {
        let jitter = Jitter::new(channels.all.first().map_or(0, |channel| seed(channel)));
        let backoff = Backoff::new(PAUSES, jitter);
        let opening =
            SubscribedConnection::open(Arc::clone(&topology), channels.clone(), node.clone());
        let state = Subscribing::Mending(Box::pin(opening));
        Self { topology, warnings, channels, node, backoff, state }
    }

    /// Subscribes, unless it is subscribed already. If the user may not subscribe, the subscription
    /// stays silent. After another failure, another attempt is under way.
    pub(crate) async fn open(&mut self) -> Result<(), StoreError> {
        let opened = self.mended().await;
        if opened.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Denied) {
            self.state = Subscribing::Silent;
            return Ok(());
        }
        opened
    }

    /// Waits for the attempt that is under way. After a failure, another attempt is under way.
    async fn mended(&mut self) -> Result<(), StoreError> {
        let Subscribing::Mending(opening) = &mut self.state else { return Ok(()) };
        match opening.await {
            Ok(subscribed) => self.state = Subscribing::Listening(subscribed),
            Err(error) => {
                if error.kind() == StoreErrorKind::Denied {
                    self.warnings.add(format!(
                        "{error} (without messages, waiters are not woken: they ask once a second)"
                    ));
                }
                self.state = self.mend();
                return Err(error);
            }
        }
        Ok(())
    }

    /// The only server at which to listen; `None` if any server will do.
    pub(crate) fn node(&self) -> Option<&Address> {
        self.node.as_ref()
    }

    /// Whether no message will ever arrive.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.state, Subscribing::Silent)
    }

    fn mend(&mut self) -> Subscribing {
        let (topology, channels) = (Arc::clone(&self.topology), self.channels.clone());
        let node = self.node.clone();
        let pause = self.backoff.next_delay();
        Subscribing::Mending(Box::pin(async move {
            tokio::time::sleep(pause).await;
            SubscribedConnection::open(topology, channels, node).await
        }))
    }

    /// The next payload, or `None` if messages may have been lost.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Ok(received) = self.try_receive().await {
                return received;
            }
        }
    }

    /// Like [`receive`](Self::receive), but returns the error of each failed attempt to subscribe.
    async fn try_receive(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            match &mut self.state {
                Subscribing::Listening(subscribed) => match subscribed.next().await {
                    Some(payload) => return Ok(Some(payload)),
                    None => {
                        // A server may flood one subscription after the other. The client must not
                        // renew all leases at each of these gaps.
                        if subscribed.opened.elapsed() >= PAUSES.1 {
                            self.backoff.reset();
                        }
                        self.state = self.mend();
                    }
                },
                // Whatever was published since the last message is lost.
                Subscribing::Mending(_) => return self.mended().await.map(|()| None),
                Subscribing::Silent => pending::<()>().await,
            }
        }
    }
}

impl Inbox for ChannelSubscription {
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

impl crate::store::Subscription for ChannelSubscription {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            loop {
                match self.try_receive().await {
                    Ok(received) => return received.and_then(|text| String::from_utf8(text).ok()),
                    // It may take long until the user has the right again. Until then, each attempt
                    // counts as a gap, so that an observer asks the store instead.
                    Err(error) if error.kind() == StoreErrorKind::Denied => return None,
                    Err(_) => {}
                }
            }
        })
    }
}

/// One subscribed connection.
struct SubscribedConnection {
    topology: Arc<Topology>,
    connection: Arc<Connection>,
    pushes: Pushes,
    opened: Instant,
    /// The time of the next ping, if nothing arrives before.
    ping_at: Instant,
    /// The ping under way. Messages wait for its answer, which takes at most a round trip, or until
    /// the connection is given up.
    ping: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

impl SubscribedConnection {
    /// Subscribes. If a node does not serve the sharded channels, their slot may have moved: this
    /// reads the map of slots again, and tries the node that serves the slot now.
    async fn open(
        topology: Arc<Topology>,
        channels: Channels,
        node: Option<Address>,
    ) -> Result<Self, StoreError> {
        match Self::try_open(&topology, &channels, node.as_ref()).await {
            Err(Failure::NotServed { .. }) => topology.refresh().await?,
            outcome => return Ok(outcome?),
        }
        let again = Self::try_open(&topology, &channels, node.as_ref()).await;
        again.map_err(|failure| match failure {
            Failure::NotServed { server, refusal } => {
                error::unserved(&server, refusal.details().unwrap_or_default())
            }
            Failure::Store(error) => error,
        })
    }

    async fn try_open(
        topology: &Arc<Topology>,
        channels: &Channels,
        node: Option<&Address>,
    ) -> Result<Self, Failure> {
        let (sender, pushes) = pushes();
        let serving = match &channels.sharded {
            Some((key, _)) => Some(topology.serving(key).await?),
            None => None,
        };
        let node = serving.as_ref().map(|server| server.address()).or(node);
        let connection = Arc::new(topology.listen(node, sender).await?);
        connection.subscribe("SUBSCRIBE", &channels.all).await?;
        if let Some((_, sharded)) = &channels.sharded {
            connection.subscribe("SSUBSCRIBE", sharded).await?;
        }
        let (topology, opened) = (Arc::clone(topology), Instant::now());
        Ok(Self { topology, connection, pushes, opened, ping_at: opened + PING_EVERY, ping: None })
    }

    /// The next payload, or `None` once the connection is lost.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(ping) = &mut self.ping {
                let answer = ping.await;
                self.ping = None;
                answer.ok()?;
                self.ping_at = Instant::now() + PING_EVERY;
            }
            let Ok(push) = timeout_at(self.ping_at, self.pushes.next()).await else {
                let (topology, connection) =
                    (Arc::clone(&self.topology), Arc::clone(&self.connection));
                self.ping = Some(Box::pin(async move { topology.probe(&connection).await }));
                continue;
            };
            self.ping_at = Instant::now() + PING_EVERY;
            return push;
        }
    }
}

/// A seed that differs between clients, so that many clients do not all return at the same moment.
fn seed(channel: &[u8]) -> u64 {
    channel.iter().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}
