//! Routes requests to the nodes of a cluster. Each node serves some of the slots, and knows which
//! nodes serve the others.
//!
//! The client has a map of the slots, which may be out of date. The node then names another node
//! (MOVED), or the node to which the slot is moving and which may have the key (ASK). Nothing was
//! executed, so the client immediately follows with the same request. When a node does not answer,
//! other nodes are asked for the map, and the caller asks again, as after any outage.
//!
//! Scripts go to primaries only: a replica that is asked names its primary.

pub(in crate::store::redis) mod slots;

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::select_ok;
use leasehold_core::StoreError;
use tokio::time::{sleep, timeout};

pub(crate) use self::slots::Map;
use super::pool::{Opening, Pool};
use crate::failures::is_out_of_reach;
use crate::mutex::Mutex;
use crate::store::redis::connection::Failure;
use crate::store::redis::connection::call::Call;
use crate::store::redis::connection::info::Info;
use crate::store::redis::connection::pushes::PushSender;
use crate::store::redis::connection::{Connection, error};
use crate::store::redis::durability::{Server, ServerDialer};
use crate::store::redis::layout::slot::slot;
use crate::store::redis::options::Address;

/// The largest number of nodes to which one request is sent, one after another: 8. Even if a slot
/// moves during the request, far fewer are needed. If 8 are not enough, the nodes contradict each
/// other.
const MAX_HOPS: u32 = 8;

/// The pause if some keys of a record have moved already and others have not: 25 ms. After 8 pauses
/// the request fails, and the caller decides. A lock has one key, unless somebody waits or shares.
const HALF_MOVED_PAUSE: Duration = Duration::from_millis(25);

/// The map is read at most every 100 ms, even if many requests find it out of date: the other
/// requests follow the redirections, or their callers send them again.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// The number of nodes that are asked for the map at the same time: 3. So a node that hangs, or is
/// cut off together with the failed one, does not keep the client from asking the others.
const ASKED_AT_ONCE: usize = 3;

/// The largest number of primaries at which a client listens for its grants: 8. Messages that are
/// published at these arrive immediately. Messages that are published at other nodes come by the
/// bus, which costs another hop, and at times 40 ms. Redis 7.0 leaves Nagle's algorithm on for the
/// bus, so the second of two messages waits for the receiver's delayed acknowledgement of the
/// first. Each client chooses its primaries at random. Otherwise a few primaries would carry all
/// subscriptions.
const MAX_SUBSCRIBED_NODES: usize = 8;

/// The client's view of a cluster, and its connections to the nodes.
#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    pool: Pool<ServerDialer>,
    known: Mutex<SlotMap>,
    /// Counts requests that any node can answer, so that the nodes take turns.
    turn: AtomicUsize,
    /// The seed that selects the primaries at which the client listens.
    seed: u64,
}

#[derive(Debug, Default)]
struct SlotMap {
    map: Option<Arc<Map>>,
    asked: Option<Instant>,
}

/// The next node for a request.
#[derive(Debug)]
struct Hop {
    node: Address,
    /// The node may answer although the slot is not its own yet.
    asking: bool,
}

impl Cluster {
    pub(crate) fn new(dialer: ServerDialer, seeds: Vec<Address>) -> Self {
        // The seed differs in each process, so that not all of them listen at the same nodes.
        let seed = RandomState::new().hash_one(());
        Self {
            seeds,
            pool: Pool::new(dialer),
            known: Mutex::default(),
            turn: AtomicUsize::new(seed as usize),
            seed,
        }
    }

    /// Runs a script on the node that serves its keys.
    pub(crate) async fn run<A>(&self, call: &Call<A>) -> Result<A, StoreError> {
        let slot = call.request.keys().iter().next().map_or(0, slot);
        let mut hop = Hop { node: self.primary(slot).await?, asking: false };
        let error = match self.follow(call, slot, &mut hop).await {
            Err(error) if is_out_of_reach(&error) => error,
            outcome => return outcome,
        };
        self.ask_others(&hop.node).await;
        if error.may_have_executed() {
            return Err(error);
        }
        let node = self.primary(slot).await?;
        if node == hop.node {
            return Err(error);
        }
        // Another node has taken over, and nothing has been executed yet.
        self.follow(call, slot, &mut Hop { node, asking: false }).await
    }

    /// Sends a request to one node after the other, until one has executed it or refuses it.
    async fn follow<A>(&self, call: &Call<A>, slot: u16, hop: &mut Hop) -> Result<A, StoreError> {
        for _ in 0..MAX_HOPS {
            let Some(server) = self.server(slot, hop).await? else { continue };
            let outcome = server.run(call, hop.asking).await;
            self.spread_quarantine(&server);
            let refusal = match outcome {
                Ok(answer) => return Ok(answer),
                Err(Failure::Store(error)) => return Err(error),
                Err(Failure::NotServed { refusal, .. }) => refusal,
            };
            let details = refusal.details().unwrap_or_default();
            match (refusal.code(), slots::redirection(details, &hop.node)) {
                ("ASK", Some(node)) => *hop = Hop { node, asking: true },
                ("MOVED", Some(node)) => {
                    // The node that redirects knows this slot better than the map does.
                    if self.may_ask()
                        && let Ok(map) = self.map_of(&hop.node).await
                    {
                        self.learn(map);
                    }
                    *hop = Hop { node, asking: false };
                }
                ("TRYAGAIN", _) => sleep(HALF_MOVED_PAUSE).await,
                _ => return Err(error::unserved(server.server(), details)),
            }
        }
        let why = format!("the nodes do not agree on who serves slot {slot}");
        Err(error::unserved(&hop.node.to_string(), &why))
    }

    /// If a request has begun a quarantine in one slot, begins it in the server's other slots, too,
    /// starting with the next slot. Nobody waits for this.
    fn spread_quarantine(&self, server: &Arc<Server>) {
        let Some(begun) = server.take_begun() else { return };
        let mut slots = self.slots_of(server.address());
        let next = slots.partition_point(|slot| *slot <= begun);
        slots.rotate_left(next);
        let server = Arc::clone(server);
        drop(tokio::spawn(async move { server.spread_quarantine(&slots).await }));
    }

    /// The slots that a primary serves, as far as is known.
    pub(crate) fn slots_of(&self, primary: &Address) -> Vec<u16> {
        let map = self.known.lock().map.clone();
        map.map(|map| map.slots_of(primary)).unwrap_or_default()
    }

    /// Reads the map, even if the last one is new.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        self.ask_any(None).await.map(drop)
    }

    /// The node of a hop. If it cannot be reached soon, other nodes are asked whether the slot has
    /// moved. If it has, this returns `None`, and the hop names the new node.
    async fn server(&self, slot: u16, hop: &mut Hop) -> Result<Option<Arc<Server>>, StoreError> {
        let node = hop.node.clone();
        let mut opening = pin!(self.pool.to(&node));
        loop {
            if let Ok(server) = timeout(self.pool.opener.dialer.timeout, &mut opening).await {
                return server.map(Some);
            }
            self.ask_others(&node).await;
            let primary = self.primary(slot).await?;
            if primary != node && !hop.asking {
                *hop = Hop { node: primary, asking: false };
                return Ok(None);
            }
        }
    }

    /// All primaries, whose connections are being opened.
    pub(crate) async fn primaries(&self) -> Result<Vec<Opening<'_>>, StoreError> {
        let map = self.map().await?;
        Ok(map.primaries().into_iter().map(|node| self.pool.to(node).boxed()).collect())
    }

    /// The primary that serves a key.
    pub(crate) async fn serving(&self, key: &[u8]) -> Result<Arc<Server>, StoreError> {
        let node = self.primary(slot(key)).await?;
        let connection = self.pool.to(&node).await;
        if connection.is_err() {
            self.ask_others(&node).await;
        }
        connection
    }

    /// The shard number of the primary that serves a key, as far as is known.
    pub(crate) fn shard(&self, key: &[u8]) -> u64 {
        let map = self.known.lock().map.clone();
        map.and_then(|map| map.shard(slot(key))).unwrap_or_default()
    }

    /// The primaries at which a client listens for its grants.
    pub(crate) fn subscribed_nodes(&self) -> Vec<Address> {
        let map = self.known.lock().map.clone();
        let some = |map| Map::some_primaries(map, self.seed, MAX_SUBSCRIBED_NODES);
        map.iter().flat_map(|map| some(map)).cloned().collect()
    }

    /// Opens a connection to this node on which messages arrive. Without a node, each call takes
    /// the next one, because a message published at any node reaches all.
    pub(crate) async fn listen(
        &self,
        node: Option<&Address>,
        pushes: PushSender,
    ) -> Result<Connection, StoreError> {
        let map = self.map().await?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let node = node.unwrap_or_else(|| &map.nodes()[turn % map.nodes().len()]);
        match self.pool.opener.dialer.dial(node, Some(pushes)).await {
            Ok(connection) => self.probe(&connection).await.map(|()| connection),
            Err(error) => {
                self.ask_others(node).await;
                Err(error)
            }
        }
    }

    /// Checks whether a node receives messages that are published at others. A node that was
    /// removed from the cluster, or sees only a minority of it, still answers but receives nothing.
    pub(crate) async fn probe(&self, connection: &Connection) -> Result<(), StoreError> {
        let info = Info::of(connection.ask(redis::cmd("CLUSTER").arg("INFO")).await?);
        if info.field("cluster_state") == Some("ok") {
            return Ok(());
        }
        Err(error::unserved(connection.server(), "the node does not see the rest of the cluster"))
    }

    async fn primary(&self, slot: u16) -> Result<Address, StoreError> {
        let map = self.map().await?;
        if let Some(node) = map.primary(slot) {
            return Ok(node.clone());
        }
        let map = if self.may_ask() { self.ask_any(None).await? } else { map };
        map.primary(slot).cloned().ok_or_else(|| {
            let why = format!("nobody serves slot {slot}");
            error::unserved("the cluster", &why)
        })
    }

    async fn map(&self) -> Result<Arc<Map>, StoreError> {
        let known = self.known.lock().map.clone();
        match known {
            Some(map) => Ok(map),
            None => self.ask_any(None).await,
        }
    }

    /// Asks nodes other than the failed one for the map, unless somebody has just done so.
    async fn ask_others(&self, failed: &Address) {
        if self.may_ask() {
            // If no node answers, the old map stays.
            drop(self.ask_any(Some(failed)).await);
        }
    }

    fn may_ask(&self) -> bool {
        let mut known = self.known.lock();
        let may = known.asked.is_none_or(|asked| asked.elapsed() >= ASK_PAUSE);
        if may {
            known.asked = Some(Instant::now());
        }
        may
    }

    /// Asks nodes for the map, a few at a time, until one answers.
    async fn ask_any(&self, failed: Option<&Address>) -> Result<Arc<Map>, StoreError> {
        let known = self.known.lock().map.clone();
        let dialer = &self.pool.opener.dialer;
        // Once the nodes are known, there are enough others to ask, so the client does not wait
        // long for slow ones.
        let patience = match known {
            Some(_) => dialer.timeout,
            None => dialer.connect_timeout + dialer.timeout,
        };
        let nodes = known.iter().flat_map(|map| map.nodes()).chain(&self.seeds);
        let mut nodes: Vec<_> = nodes.filter(|node| Some(*node) != failed).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % nodes.len().max(1);
        nodes.rotate_left(turn);
        let mut failure = error::unserved("the cluster", "no other node is known");
        for few in nodes.chunks(ASKED_AT_ONCE) {
            let asked = select_ok(few.iter().map(|node| Box::pin(self.map_of(node))));
            match timeout(patience, asked).await {
                Ok(Ok((map, _))) => return Ok(self.learn(map)),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = error::unserved("the cluster", "no node answers in time"),
            }
        }
        Err(failure)
    }

    async fn map_of(&self, node: &Address) -> Result<Map, StoreError> {
        let connection = self.pool.to(node).await?;
        let slots = connection.ask(redis::cmd("CLUSTER").arg("SLOTS")).await?;
        let nothing = "the node knows no node that serves anything: is it in the cluster?";
        Map::parse(slots, node).ok_or_else(|| error::unserved(connection.server(), nothing))
    }

    fn learn(&self, map: Map) -> Arc<Map> {
        let map = Arc::new(map);
        let mut known = self.known.lock();
        for (from, to) in known.map.iter().flat_map(|before| map.takeovers(before)) {
            self.pool.opener.note_takeover(from, to);
        }
        known.map = Some(Arc::clone(&map));
        map
    }
}
