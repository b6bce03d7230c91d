//! A server among the nodes of a quorum. It may be absent when the quorum is made, and must not be
//! the same as another node.

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_core::{
    Answer, BoxFuture, ClientId, Error, InvalidInput, LockName, Operation, StoreError,
    StoreErrorKind,
};
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::Redis;
use super::checks::Incompatible;
use super::clocks::{OF_NODES, compare};
use super::node_list::{NodeEntry, NodeList};
use super::options::{Address, LayoutName, RedisOptions, Servers};
use crate::background;
use crate::store::{Capabilities, Inbox, Store, Subscribed};
use crate::time::SystemClock;

/// How long the remaining nodes may take once a majority is connected: 500 ms, like one request. A
/// node that takes longer joins later.
const GRACE: Duration = Duration::from_millis(500);

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
        // All clients number the nodes in the same way, whatever the order of the options: the
        // number says at which nodes a release is published.
        let mut addresses = addresses.clone();
        addresses.sort();
        let list = NodeList::of(addresses.iter().map(ToString::to_string));
        let member = |(index, address): (usize, &Address)| {
            Arc::new(LazyNode {
                address: address.to_string(),
                redis: OnceLock::new(),
                settings: settings.of_node(address),
                entry: list.entry(index),
                state: watch::Sender::new(NodeState::Closed),
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
        let needed = self.members.len() / 2 + 1;
        let mut until = tokio::time::Instant::now() + self.connect_timeout;
        let mut changes: Vec<_> =
            self.members.iter().map(|member| member.state.subscribe()).collect();
        self.members.iter().for_each(LazyNode::open);
        let mut has_majority = false;
        loop {
            let states: Vec<NodeState> =
                changes.iter_mut().map(|change| change.borrow_and_update().clone()).collect();
            if let Some(error) = states.iter().find_map(NodeState::refusal) {
                return Err(error);
            }
            let open = states.iter().filter(|state| matches!(state, NodeState::Open)).count();
            let opening = states.iter().filter(|state| matches!(state, NodeState::Opening)).count();
            if open >= needed && !std::mem::replace(&mut has_majority, true) {
                until = until.min(tokio::time::Instant::now() + GRACE);
            }
            let change = changes.iter_mut().map(|change| Box::pin(change.changed()));
            let is_over = opening == 0
                || timeout_at(until, futures_util::future::select_all(change)).await.is_err();
            if is_over && has_majority {
                self.compare_clocks();
                self.compare_lists().await;
                return Ok(());
            }
            if is_over {
                return Err(self.missing(&states, open, needed));
            }
        }
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

    fn missing(&self, states: &[NodeState], open: usize, needed: usize) -> StoreError {
        let missing = self.members.iter().zip(states);
        let missing = missing.filter(|(_, state)| !matches!(state, NodeState::Open));
        let why = missing.map(|(member, state)| match state.failure() {
            Some(error) => error.to_string(),
            None => format!("{}: no answer", member.address),
        });
        let (nodes, why) = (self.members.len(), why.collect::<Vec<_>>().join("; "));
        let message =
            format!("{open} of {nodes} nodes can be reached and {needed} are needed: {why}");
        StoreError::new(StoreErrorKind::Unreachable, message)
    }
}

#[derive(Clone, Debug)]
enum NodeState {
    Closed,
    /// The server could not be reached, at the given time.
    Failed(StoreError, Instant),
    Open,
    Opening,
    /// The server must not be a node of this quorum.
    Refused(StoreError),
    /// The server was a replica at the given time. A failover behind one address passes by itself.
    Replica(StoreError, Instant),
}

impl NodeState {
    /// Why the node is not open, if that is known.
    fn failure(&self) -> Option<&StoreError> {
        match self {
            Self::Failed(error, _) | Self::Refused(error) | Self::Replica(error, _) => Some(error),
            Self::Closed | Self::Open | Self::Opening => None,
        }
    }

    /// Why the list of nodes is wrong, if it is. Nodes do not take over from each other, so a
    /// replica that is there from the beginning is a mistake.
    fn refusal(&self) -> Option<StoreError> {
        match self {
            Self::Refused(error) => Some(error.clone()),
            Self::Replica(error, _) => {
                Some(StoreError::new(StoreErrorKind::Unsupported, error.to_string()))
            }
            Self::Closed | Self::Failed(..) | Self::Open | Self::Opening => None,
        }
    }

    /// The state after a failed attempt to open the node.
    fn after(error: Error) -> Self {
        let is_replica = matches!(&error, Error::Store(error)
            if error.kind() == StoreErrorKind::Unreachable && is_incompatible(error));
        let error = in_a_quorum(error);
        match error.kind() {
            StoreErrorKind::Unsupported if is_replica => {
                let error = StoreError::new(StoreErrorKind::Unreachable, error.to_string());
                Self::Replica(error, Instant::now())
            }
            StoreErrorKind::Unsupported | StoreErrorKind::Version => Self::Refused(error),
            _ => Self::Failed(error, Instant::now()),
        }
    }
}

/// One node, which is opened when it can be reached.
#[derive(Debug)]
struct LazyNode {
    address: String,
    settings: RedisOptions,
    redis: OnceLock<Redis>,
    entry: NodeEntry,
    state: watch::Sender<NodeState>,
}

impl LazyNode {
    /// Opens the node, unless that is under way or failed a moment ago. This happens on the
    /// background thread, because the caller may leave before the node is open.
    fn open(self: &Arc<Self>) {
        let is_ours = self.state.send_if_modified(|state| {
            let is_due = match state {
                NodeState::Closed => true,
                NodeState::Failed(_, at) | NodeState::Replica(_, at) => at.elapsed() >= RETRY,
                NodeState::Open | NodeState::Opening | NodeState::Refused(_) => false,
            };
            if is_due {
                *state = NodeState::Opening;
            }
            is_due
        });
        if !is_ours {
            return;
        }
        let member = Arc::clone(self);
        let opening = async move {
            let state = match member.connect().await {
                Ok(()) => NodeState::Open,
                Err(error) => NodeState::after(error),
            };
            member.state.send_replace(state);
        };
        if let Err(error) = background::spawn(&SystemClock::new(), Box::pin(opening)) {
            self.state.send_replace(NodeState::Failed(error, Instant::now()));
        }
    }

    /// Connects, and checks the server.
    async fn connect(&self) -> Result<(), Error> {
        let redis =
            Redis::open_admitted(self.settings.clone(), Some(Arc::new(self.entry.clone()))).await?;
        // Nobody else connects at the same time.
        let _ = self.redis.set(redis);
        Ok(())
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

    /// The store, once it is open.
    async fn opened(self: &Arc<Self>) -> Result<&Redis, StoreError> {
        let mut changes = self.state.subscribe();
        self.open();
        loop {
            if let Some(redis) = self.redis.get() {
                return Ok(redis);
            }
            if let Some(error) = changes.borrow_and_update().failure() {
                return Err(error.clone());
            }
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
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
            let redis = self.opened().await?;
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
        Box::pin(async move { self.opened().await?.inbox(client).await })
    }

    fn prepare(&self) -> Option<BoxFuture<'_, ()>> {
        self.redis.get()?.prepare()
    }

    fn clock_offset(&self) -> Duration {
        self.settings.clock_offset(false)
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (name, message) = (name.clone(), message.to_owned());
        Box::pin(async move { self.opened().await?.publish(&name, &message).await })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let name = name.clone();
        Box::pin(async move { self.opened().await?.subscribe(&name).await })
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move { self.opened().await?.end_quarantine().await })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.redis.get().map(Store::warnings).unwrap_or_default();
        let state = self.state.borrow().clone();
        if !matches!(state, NodeState::Open) {
            let no_answer = || format!("{}: no answer yet", self.address);
            let why = state.failure().map_or_else(no_answer, ToString::to_string);
            warnings.push(format!("{why}; the quorum does without this node for now"));
        }
        warnings.extend(self.entry.warnings());
        warnings
    }
}

/// Explains the error for a server of the wrong kind.
fn in_a_quorum(error: Error) -> StoreError {
    match error {
        Error::Store(error)
            if error.kind() == StoreErrorKind::Unsupported || is_incompatible(&error) =>
        {
            let why = format!(
                "{error}; the nodes of a quorum are independent primaries: no replicas of each \
                 other, and not the masters of one cluster, though many tutorials call that Redlock"
            );
            StoreError::new(StoreErrorKind::Unsupported, why)
        }
        Error::Store(error) => error,
        other => StoreError::new(StoreErrorKind::Unsupported, other.to_string()),
    }
}

fn is_incompatible(error: &StoreError) -> bool {
    error.source().is_some_and(<dyn std::error::Error>::is::<Incompatible>)
}
