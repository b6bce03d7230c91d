//! A store that is made of stores: a majority of independent stores decides.

mod acquire;
mod adopt;
mod cleanup;
mod end;
mod fan_out;
mod keep;
mod leases;
mod list;
mod look;
mod messages;
mod node;
mod nodes;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, Clock, End, InvalidInput, Keep, LockName, Mode, Operation,
    StoreError, StoreErrorKind, Take,
};

use self::acquire::AcquireRounds;
use self::node::Result;
use self::nodes::Nodes;
use super::{Capabilities, Inbox, Store, Subscribed};
use crate::clock::SystemClock;

/// The least and the greatest number of nodes. With two, the failure of one stops everything. With
/// more than nine, each acquire costs more than tolerating one more failure is worth.
const NODES: (usize, usize) = (3, 9);

/// N independent stores, of which a majority decides.
///
/// While a majority of the nodes holds a name for one client, no other client can have a majority.
/// So a lock survives the loss of any minority, and the nodes need no replication between them.
/// Each node must be a separate store: not a replica of another, not one of the masters of one
/// cluster.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// use leasehold::store::{Memory, Quorum, Store};
///
/// let nodes: Vec<Box<dyn Store>> = (0..3).map(|_| Box::new(Memory::new()) as _).collect();
/// let client = leasehold::Client::builder().store(Quorum::new(nodes)?).build().await?;
/// let guard = client.mutex("invoices/42").acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What it promises
///
/// - **Exclusion** while no node forgets what it granted and no node's clock is set forward: a
///   guard is valid until the q-th latest of its nodes' deadlines, where q nodes are a majority.
///   The nodes need not show the same time, because a lease ends on each node by the node's own
///   clock. If a replica takes over a node, the node's quarantine covers the difference of clocks.
/// - **Order of tokens** whatever clocks, pauses and the network do, as long as no node forgets:
///   the counters of a majority reach a token before it is given out, and every later majority has
///   one of those nodes.
/// - A minority that is down, unreachable or slow delays nothing: nodes are asked at the same time,
///   and a call ends as soon as its outcome is certain. But until it is back, fewer other nodes can
///   fail without harm.
/// - While no majority can be reached, clients send nothing new to the other nodes. Whatever the
///   number of waiting callers, a client asks each absent node only now and then whether it is
///   back.
///
/// A node that was restarted without its data breaks the first two promises: see `quarantine` of
/// the Redis store.
///
/// # Its nodes
///
/// All clients must name the same servers: two lists of nodes may each have a majority. With
/// `redis+quorum://` no server counts twice, even if two addresses later lead to the same server.
/// Each client leaves its list at every node, in `lh:%nodes`; that costs two round trips on
/// connecting, then a small script once a minute. On connecting, a client warns of other lists that
/// were used in the last 5 minutes, and `leasehold doctor` names them, too. With `layout=plain`
/// there are no such lists, and without the right `+info` a client cannot tell servers apart.
///
/// To move to other nodes, replace one node at a time. Stop the old node for good. Without a
/// quarantine, wait for the longest ttl. Then give all clients the new list, before you stop the
/// next node. During the move, each majority of the old list consists of nodes that stay. Each
/// majority of the new list shares a node with each of those majorities. Clients warn of the other
/// list meanwhile, as they should.
///
/// If you write your own stores as nodes, each needs a counter that never goes back: a store that
/// forgets its counter could grant a name with a lower token than before.
///
/// # What it cannot do
///
/// A quorum has only mutexes, and `write` of a read/write lock, which is one. Nodes cannot count
/// permits together: with two permits on three nodes, three users would each see a majority. It has
/// no queue: waiters poll when a release is published, in no order.
#[derive(Debug)]
pub struct Quorum {
    nodes: Arc<Nodes>,
}

impl Quorum {
    /// Makes a store of three to nine others. An even number is allowed, but tolerates no more
    /// failures than a quorum with one node less.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] for too few or too many nodes.
    pub fn new(nodes: Vec<Box<dyn Store>>) -> Result<Self, InvalidInput> {
        Self::with_clock(nodes, SystemClock::new())
    }

    /// Like [`Quorum::new`], but on the given clock, which must be the client's.
    ///
    /// # Errors
    ///
    /// The same as [`Quorum::new`].
    pub fn with_clock(nodes: Vec<Box<dyn Store>>, clock: impl Clock) -> Result<Self, InvalidInput> {
        let (count, (least, most)) = (nodes.len(), NODES);
        if count < least || count > most {
            let why =
                format!("a quorum of {count} stores: give {least} to {most}, best an odd number");
            return Err(InvalidInput::new("quorum", why));
        }
        Ok(Self { nodes: Arc::new(Nodes::new(nodes, Arc::new(clock))) })
    }

    /// The time within which a node must answer any request, for nodes that are far away. The
    /// default for an acquire is a hundredth of the ttl, at least 5 ms and at most 50 ms; for all
    /// other requests it is 500 ms.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        // Nobody else uses the nodes before the first request.
        if let Some(nodes) = Arc::get_mut(&mut self.nodes) {
            nodes.timeout = Some(timeout);
        }
        self
    }

    async fn run(&self, operation: Operation) -> Result<Answer> {
        let nodes = &self.nodes;
        let (name, action) = match operation {
            Operation::List { prefix, after, keys } => {
                return list::page(nodes, prefix, after.as_deref(), keys).await;
            }
            Operation::Keep(leases) => return keep::many(nodes, leases).await,
            Operation::On { name, action } => (name, action),
            _ => return Err(StoreError::unknown_request()),
        };
        let request = match &action {
            Action::End(End { request, .. })
            | Action::Keep(Keep { request, .. })
            | Action::Take(Take { request, .. }) => Some(request),
            _ => None,
        };
        let unsupported =
            |why| Err(StoreError::new(StoreErrorKind::Unsupported, format!("{name}: {why}")));
        if request.is_some_and(|request| request.mode != Mode::Exclusive) {
            return unsupported(
                "a quorum has neither readers nor permits: use a mutex, or a store with one \
                 primary",
            );
        }
        match action {
            Action::End(end) => end::end(nodes, &name, &end).await,
            Action::Keep(keep) => keep::one(nodes, &name, keep).await,
            Action::Look { limit } => look::run(nodes, &name, limit).await,
            Action::Revoke { id, force } => end::revoke(nodes, &name, id, force).await,
            Action::Take(Take { ballot_us: Some(_), .. } | Take { claim: Some(_), .. }) => {
                unsupported("a quorum is no node of another quorum")
            }
            Action::Take(take) => match take.from {
                Some(from) => adopt::run(nodes, &name, &take, from).await,
                None => AcquireRounds::new(nodes, &name, &take).run().await,
            },
            _ => Err(StoreError::unknown_request()),
        }
    }
}

impl Store for Quorum {
    fn capabilities(&self) -> Capabilities {
        let all = |can| self.nodes.all_can(can);
        Capabilities {
            claims_first: true,
            local_tokens: all(|can| can.local_tokens),
            publishes_releases: all(|can| can.publishes_releases),
            recorded_tokens: all(|can| can.recorded_tokens),
            splits_votes: true,
            // Each renewal already restores a lease at the nodes that lack it, so nothing has to be
            // reclaimed. A message of one node says only that the client should ask a majority.
            ..Capabilities::default()
        }
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.run(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(messages::inbox(&self.nodes, client))
    }

    fn prepare(&self) -> Option<BoxFuture<'_, ()>> {
        let each = self.nodes.nodes.iter().filter_map(|node| node.store.inner.prepare());
        let each: FuturesUnordered<_> = each.collect();
        // A minority that hangs delays nothing.
        (!each.is_empty()).then(|| each.take(self.nodes.needed).collect().boxed())
    }

    fn clock_offset(&self) -> Duration {
        let each = self.nodes.nodes.iter().map(|node| node.store.inner.clock_offset());
        each.max().unwrap_or_default()
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (name, message) = (name.clone(), message.to_owned());
        Box::pin(async move { messages::publish(&self.nodes, &name, &message).await })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let name = name.clone();
        Box::pin(async move { messages::subscribe(&self.nodes, &name).await })
    }

    fn forget(&self, client: ClientId) {
        self.nodes.nodes.iter().for_each(|node| node.store.inner.forget(client));
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        let each = self.nodes.nodes.iter().map(|node| node.store.inner.end_quarantine());
        Box::pin(async {
            let each: Result<Vec<bool>, _> = join_all(each).await.into_iter().collect();
            Ok(each?.contains(&true))
        })
    }

    fn warnings(&self) -> Vec<String> {
        let nodes = &self.nodes;
        let even = nodes.len().is_multiple_of(2).then(|| {
            format!(
                "a quorum of {} nodes tolerates no more failures than one of {}: add or remove one",
                nodes.len(),
                nodes.len() - 1
            )
        });
        let each = nodes.nodes.iter().flat_map(|node| node.store.inner.warnings());
        let mut warnings: Vec<_> = even.into_iter().collect();
        for words in each {
            // A fault that concerns all nodes is in the warnings of each.
            if !warnings.contains(&words) {
                warnings.push(words);
            }
        }
        warnings
    }
}
