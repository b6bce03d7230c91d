//! A server among the nodes of a quorum. It may be absent when the quorum is made, and must not be
//! the same as another node.

use std::error::Error as _;
use std::iter::successors;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use leasehold_core::quorum::majority;
use leasehold_core::{
    Answer, BoxFuture, ClientId, Error, InvalidInput, LockName, Operation, StoreError,
    StoreErrorKind,
};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout_at;

use super::Redis;
use super::checks::{GRACE, Incompatible};
use super::clocks::{OF_NODES, compare};
use super::connection::dial::Admission;
use super::node_list::{NodeEntry, NodeList};
use super::options::{Address, LayoutName, RedisOptions, Servers};
use crate::background;
use crate::mutex::Mutex;
use crate::store::{Capabilities, Inbox, Store, Subscribed};
use crate::time::SystemClock;

/// The first pause before a node that could not be reached is tried again: 250 ms. The pauses grow
/// with each try.
const RETRY: Duration = Duration::from_millis(250);

/// The nodes of a quorum.
#[derive(Debug)]
pub(crate) struct QuorumNodes {
    members: Vec<Arc<LazyNode>>,
    connect_timeout: Duration,
    /// The timeout of a request, if it was given.
    pub(crate) timeout: Option<Duration>,
}

impl QuorumNodes {
    /// The nodes that settings name, if they name a quorum. Nothing is opened yet.
    pub(crate) fn of(settings: &RedisOptions) -> Result<Option<Self>, InvalidInput> {
        let Servers::Quorum(addresses) = &settings.servers else { return Ok(None) };
        settings.check()?;
        // All clients have the nodes in the same order, whatever that in the URL: their lists are
        // compared.
        let mut addresses = addresses.clone();
        addresses.sort();
        let list = NodeList::of(addresses.iter().map(ToString::to_string));
        let member = |(index, address): (usize, &Address)| {
            Arc::new(LazyNode {
                address: address.to_string(),
                settings: settings.of_node(address),
                entry: list.entry(index),
                redis: OnceCell::new(),
                failure: Mutex::default(),
            })
        };
        Ok(Some(Self {
            members: addresses.iter().enumerate().map(member).collect(),
            connect_timeout: settings.connect_timeout(),
            timeout: settings.timeout,
        }))
    }

    /// Each node as a store.
    pub(crate) fn stores(&self) -> Vec<Box<dyn Store>> {
        self.members.iter().map(|member| Box::new(Arc::clone(member)) as Box<dyn Store>).collect()
    }

    /// Connects to all nodes; a minority may be missing.
    ///
    /// # Errors
    ///
    /// Why a majority cannot be reached, or why a server must not be among the nodes.
    pub(crate) async fn connect(&self) -> Result<(), StoreError> {
        let needed = majority(self.members.len());
        let mut until = tokio::time::Instant::now() + self.connect_timeout;
        let mut opening: FuturesUnordered<_> = self.members.iter().map(LazyNode::open).collect();
        let mut open = 0;
        while let Ok(Some(opened)) = timeout_at(until, opening.next()).await {
            match opened {
                Ok(_) => open += 1,
                // Nodes do not take over from each other, so a replica that is there from the
                // beginning is a mistake, too.
                Err(error) if is_mistake(&error) => {
                    return Err(StoreError::new(StoreErrorKind::Unsupported, error.to_string()));
                }
                Err(_) => {}
            }
            if open >= needed {
                until = until.min(tokio::time::Instant::now() + GRACE);
            }
        }
        if open < needed {
            return Err(self.missing(open, needed));
        }
        self.compare_clocks();
        self.compare_lists().await;
        Ok(())
    }

    /// Warns of nodes that do not accept each other's tokens, or soon will not, because of their
    /// clocks.
    fn compare_clocks(&self) {
        let there = self.members.iter().filter_map(|member| {
            let has_ballots = member.settings.layout == LayoutName::Native;
            member.redis.get().filter(|_| has_ballots)
        });
        let there: Vec<&Redis> = there.collect();
        let clocks: Vec<_> = there.iter().filter_map(|redis| redis.clock.clone()).collect();
        if let [first, ..] = there[..] {
            first.warnings.add_trouble(compare("the quorum", &clocks, &OF_NODES));
        }
    }

    /// Stores the list at each node that can be reached, and reads the other lists there. The first
    /// pass learns the ids of the nodes, and the second pass stores them.
    async fn compare_lists(&self) {
        for _ in 0..2 {
            let due = self.members.iter().filter(|member| member.is_list_due());
            join_all(due.map(|member| member.leave_list())).await;
        }
    }

    fn missing(&self, open: usize, needed: usize) -> StoreError {
        let why: Vec<_> = self.members.iter().filter_map(|member| member.trouble()).collect();
        let (nodes, why) = (self.members.len(), why.join("; "));
        let message =
            format!("{open} of {nodes} nodes can be reached and {needed} are needed: {why}");
        StoreError::new(StoreErrorKind::Unreachable, message)
    }
}

/// The error of a node that cannot be opened. It names the mistake, if the server is no independent
/// primary.
fn not_opened(error: Error) -> StoreError {
    let error = match error {
        Error::Store(error) => error,
        other => StoreError::new(StoreErrorKind::Unsupported, other.to_string()),
    };
    if !is_mistake(&error) {
        return error;
    }
    let why = format!(
        "{error}; the nodes of a quorum are independent primaries: no replicas of each other, \
         and not the masters of one cluster, though many tutorials call that Redlock"
    );
    StoreError::new(error.kind(), why).with_source(error)
}

/// Whether a server is no independent primary. A replica is not refused for good: a failover behind
/// one address passes by itself.
fn is_mistake(error: &StoreError) -> bool {
    let mut sources = successors(error.source(), |source| (*source).source());
    matches!(error.kind(), StoreErrorKind::Unsupported | StoreErrorKind::Version)
        || sources.any(<dyn std::error::Error>::is::<Incompatible>)
}

/// One node, which is opened when it can be reached.
#[derive(Debug)]
struct LazyNode {
    address: String,
    settings: RedisOptions,
    entry: NodeEntry,
    redis: OnceCell<Redis>,
    /// Why the node could not be opened, and when.
    failure: Mutex<Option<(StoreError, Instant)>>,
}

impl LazyNode {
    /// Opens the node. This happens on the background thread, because the caller may leave before
    /// the node is open.
    async fn open(self: &Arc<Self>) -> Result<&Redis, StoreError> {
        if let Some(redis) = self.redis.get() {
            return Ok(redis);
        }
        let (report, opened) = oneshot::channel();
        let node = Arc::clone(self);
        let opening = async move {
            let opened = node.redis.get_or_try_init(|| node.connect()).await;
            let _ = report.send(opened.map(drop));
        };
        background::spawn(&SystemClock::new(), Box::pin(opening))?;
        match opened.await {
            Ok(Err(failure)) => Err(failure),
            Ok(Ok(())) | Err(_) => self.redis.get().ok_or_else(|| {
                StoreError::new(StoreErrorKind::Unreachable, "the node is not open yet")
            }),
        }
    }

    /// Connects, and checks the server, unless that failed a moment ago.
    async fn connect(&self) -> Result<Redis, StoreError> {
        if let Some((failure, at)) = &*self.failure.lock()
            && at.elapsed() < RETRY
        {
            return Err(failure.clone());
        }
        let admission: Arc<dyn Admission> = Arc::new(self.entry.clone());
        let opened = Redis::open_admitted(self.settings.clone(), Some(admission)).await;
        opened.map_err(|error| {
            let failure = not_opened(error);
            *self.failure.lock() = Some((failure.clone(), Instant::now()));
            failure
        })
    }

    /// Why the node is not open.
    fn trouble(&self) -> Option<String> {
        let failure = || self.failure.lock().as_ref().map(|(it, _)| it.to_string());
        let why = || failure().unwrap_or_else(|| format!("{}: no answer", self.address));
        self.redis.get().is_none().then(why)
    }

    /// Whether it is time to store the list at this node. If so, the caller must do that. Layouts
    /// for programs in other languages have no list.
    fn is_list_due(&self) -> bool {
        self.settings.layout == LayoutName::Native
            && self.redis.get().is_some()
            && self.entry.is_due()
    }

    /// Stores the list at this node, and reads the other lists there.
    async fn leave_list(&self) {
        if let Some(redis) = self.redis.get() {
            let (prefix, limit) = (self.settings.prefix(), self.settings.timeout());
            self.entry.leave_list(&redis.topology, prefix, limit).await;
        }
    }
}

impl Store for Arc<LazyNode> {
    fn capabilities(&self) -> Capabilities {
        let reclaims = self.settings.quarantine().is_some();
        Capabilities { reclaims, ..Redis::able(&self.settings) }
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let redis = self.open().await?;
            if self.is_list_due() {
                let member = Arc::clone(self);
                let leaving = Box::pin(async move { member.leave_list().await });
                // Nobody waits for the result.
                let _ = background::spawn(&SystemClock::new(), leaving);
            }
            redis.execute(operation).await
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move { self.open().await?.inbox(client).await })
    }

    fn prepare(&self) -> Option<BoxFuture<'_, ()>> {
        self.redis.get()?.prepare()
    }

    fn clock_offset(&self) -> Duration {
        self.settings.clock_offset(false)
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (name, message) = (name.clone(), message.to_owned());
        Box::pin(async move { self.open().await?.publish(&name, &message).await })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let name = name.clone();
        Box::pin(async move { self.open().await?.subscribe(&name).await })
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move { self.open().await?.end_quarantine().await })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.redis.get().map(Store::warnings).unwrap_or_default();
        let trouble = self.trouble();
        warnings
            .extend(trouble.map(|why| format!("{why}; the quorum does without this node for now")));
        warnings.extend(self.entry.warnings());
        warnings
    }
}
