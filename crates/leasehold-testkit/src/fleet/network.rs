//! The servers of a simulated cluster and the network before them.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::ClientId;
use leasehold::time::{Clock, FakeClock, Instant};
use leasehold_core::backoff::Jitter;
use leasehold_core::{Answer, BoxFuture, Message, Now, Operation};
use tokio::sync::mpsc::UnboundedSender;

use super::counts::{Counts, Timeline};
use super::node::{BUS_MESSAGE, CONNECT, Node};

/// A request, an answer or a message takes 100 to 300 µs on its way, and one in a hundred 2 to
/// 5 ms.
const LATENCY: [(Duration, Duration); 2] = [
    (Duration::from_micros(100), Duration::from_micros(300)),
    (Duration::from_millis(2), Duration::from_millis(5)),
];

/// The behaviour of the network.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// How many of a million requests, and of a million answers, are lost.
    pub lost_requests: u64,
    /// How many of a million messages are lost.
    pub lost_messages: u64,
    /// How far a replica is behind its primary.
    pub lag: Duration,
}

/// A process that listens for messages.
pub(super) trait Listener: Send + Sync {
    /// Whether it listens at this server, one of `nodes`.
    fn listens_at(&self, index: usize, nodes: usize) -> bool;

    /// Opens a subscription again until a server answers; false if the process is gone.
    fn listens_again(
        self: Arc<Self>,
        network: Arc<Network>,
        index: usize,
    ) -> BoxFuture<'static, bool>;
}

/// The recipient of a message.
pub(super) struct Recipient {
    pub(super) listener: Arc<dyn Listener>,
    pub(super) sender: UnboundedSender<(Instant, Message)>,
}

/// A simulated cluster.
pub struct Network {
    pub(super) clock: FakeClock,
    started: Instant,
    weather: Weather,
    nodes: Vec<Mutex<Node>>,
    jitter: Mutex<Jitter>,
    pub(super) inboxes: Mutex<HashMap<ClientId, Recipient>>,
    bus_messages: AtomicU64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fate of a request that was sent to a server.
pub(super) enum Fate {
    /// The answer, and when it arrives.
    Answered(Box<Answer>, Instant),
    /// The connection is closed: no server that knows of the request is left.
    Closed,
    Lost,
}

impl Network {
    /// A cluster of `nodes` servers, on a clock that is moved from outside.
    pub fn new(clock: FakeClock, nodes: usize, weather: Weather, seed: u64) -> Arc<Self> {
        // Some code takes a time of zero for "never", so the clock begins later.
        clock.advance(Duration::from_secs(1_000));
        Arc::new(Self {
            started: clock.now(),
            clock,
            weather,
            nodes: (0..nodes).map(|_| Mutex::new(Node::new(weather.lag))).collect(),
            jitter: Mutex::new(Jitter::new(seed)),
            inboxes: Mutex::default(),
            bus_messages: AtomicU64::new(0),
        })
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The time since the cluster was made.
    pub fn elapsed(&self) -> Duration {
        self.clock.now().saturating_since(self.started)
    }

    /// The server of a name.
    pub fn route(&self, name: &LockName) -> usize {
        let mut hasher = DefaultHasher::new();
        name.as_str().hash(&mut hasher);
        (hasher.finish() % self.nodes.len() as u64) as usize
    }

    pub(super) fn node(&self, index: usize) -> MutexGuard<'_, Node> {
        lock(&self.nodes[index])
    }

    // ---- chance

    /// A number that a seed decides.
    pub fn draw(&self) -> u64 {
        lock(&self.jitter).next_u64()
    }

    /// A span that a seed decides.
    pub fn between(&self, low: Duration, high: Duration) -> Duration {
        lock(&self.jitter).between(low, high)
    }

    pub(super) fn latency(&self) -> Duration {
        let (low, high) = LATENCY[usize::from(self.draw().is_multiple_of(100))];
        self.between(low, high)
    }

    fn is_lost(&self, of_a_million: u64) -> bool {
        self.draw() % 1_000_000 < of_a_million
    }

    // ---- requests

    /// Sends a request on a connection to the server that served these names in this generation.
    pub(super) async fn request(
        &self,
        index: usize,
        generation: u64,
        operation: &Operation,
    ) -> Fate {
        if self.is_lost(self.weather.lost_requests) {
            return Fate::Lost;
        }
        self.clock.sleep_until(self.clock.now() + self.latency()).await;
        let now = self.clock.now();
        let (answer, messages, done) = {
            let mut node = self.node(index);
            if node.is_down || node.generation != generation {
                return Fate::Closed;
            }
            node.timeline.command(self.elapsed());
            node.execute(now, Now::of(&self.clock), operation)
        };
        for (client, message) in messages {
            self.publish(index, done, client, message);
        }
        if self.is_lost(self.weather.lost_requests) {
            return Fate::Lost;
        }
        Fate::Answered(Box::new(answer), done + self.latency())
    }

    /// Sends a message to all servers, and to its client from a server at which the client listens.
    fn publish(&self, from: usize, done: Instant, client: ClientId, message: Message) {
        self.bus_messages.fetch_add(1, Ordering::Relaxed);
        for (index, node) in self.nodes.iter().enumerate() {
            let at = if index == from { done } else { done + self.latency() };
            lock(node).work(at, BUS_MESSAGE);
        }
        if self.is_lost(self.weather.lost_messages) {
            return;
        }
        let mut inboxes = lock(&self.inboxes);
        let Some(Recipient { listener, sender }) = inboxes.get(&client) else { return };
        let hops = if listener.listens_at(from, self.len()) { 1 } else { 2 };
        let arrives = (0..hops).fold(done, |at, _| at + self.latency());
        if sender.send((arrives, message)).is_err() {
            inboxes.remove(&client);
        }
    }

    // ---- connections

    /// Opens a connection, and returns the generation that answers, if there is one.
    pub(super) async fn dial(&self, index: usize) -> Option<u64> {
        let trip = self.latency() + self.latency();
        self.clock.sleep_until(self.clock.now() + trip).await;
        let (done, generation) = {
            let (now, since_start) = (self.clock.now(), self.elapsed());
            let mut node = self.node(index);
            node.counts.dials += 1;
            node.timeline.dial(since_start);
            if node.is_down {
                return None;
            }
            (node.work(now, CONNECT), node.generation)
        };
        self.clock.sleep_until(done).await;
        Some(generation)
    }

    /// Asks a server that is up which server serves which names.
    pub(super) async fn ask_for_map(&self, about: usize) -> Option<u64> {
        let asked = (about + 1 + self.draw() as usize % (self.len() - 1).max(1)) % self.len();
        let trip = self.latency() + self.latency();
        self.clock.sleep_until(self.clock.now() + trip).await;
        let now = self.clock.now();
        {
            let mut other = self.node(asked);
            if other.is_down {
                return None;
            }
            other.counts.maps += 1;
            other.work(now, CONNECT);
        }
        let node = self.node(about);
        (!node.is_down).then_some(node.generation)
    }

    // ---- faults

    /// Ends a server and its connections.
    pub fn fail(self: &Arc<Self>, index: usize) {
        self.node(index).is_down = true;
        let listening: Vec<_> = {
            let inboxes = lock(&self.inboxes);
            let here = inboxes.values().filter(|it| it.listener.listens_at(index, self.len()));
            here.map(|it| (Arc::clone(&it.listener), it.sender.clone())).collect()
        };
        for (listener, sender) in listening {
            let network = Arc::clone(self);
            tokio::spawn(async move {
                if listener.listens_again(Arc::clone(&network), index).await {
                    // What was published meanwhile may have been lost.
                    let _ = sender.send((network.clock.now(), Message::Gap));
                }
            });
        }
    }

    /// Lets a replica of a server take over. Returns the names whose changes the replica has
    /// missed.
    pub fn promote(&self, index: usize) -> Vec<LockName> {
        self.node(index).promote()
    }

    // ---- figures

    /// The requests to a server.
    pub fn counts(&self, index: usize) -> Counts {
        self.node(index).counts
    }

    /// When the requests to a server came.
    pub fn timeline(&self, index: usize) -> Timeline {
        self.node(index).timeline.clone()
    }

    /// How long a server was at work.
    pub fn busy(&self, index: usize) -> Duration {
        self.node(index).busy
    }

    /// The requests to all servers.
    pub fn all_counts(&self) -> Counts {
        (0..self.len()).fold(Counts::default(), |sum, index| sum.with(self.counts(index)))
    }

    /// How many messages each server received.
    pub fn bus_messages(&self) -> u64 {
        self.bus_messages.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("nodes", &self.len()).finish_non_exhaustive()
    }
}
