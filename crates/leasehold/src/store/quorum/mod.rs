//! A store made of stores: a majority of independent ones decides.

mod acquire;
mod adopt;
mod asking;
mod change;
mod ending;
mod leases;
mod look;
mod news;
mod node;
mod renew;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::quorum::{Ballots, majority};
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, Clock, Instant, Invalid, LockName, Mode, Now, Operation,
    RenewLease, Reply, StoreError, StoreErrorKind,
};

use self::acquire::Attempt;
use self::change::Changing;
use self::leases::Leases;
use self::node::{Node, micros};
use super::{Capabilities, Inbox, Store, Subscription};
use crate::clock::SystemClock;

/// Fewest and most nodes: with two the failure of one stops everything, and beyond nine each
/// acquire costs more than one failure more is worth.
const NODES: (usize, usize) = (3, 9);

/// How long one node may take to answer an acquire: a hundredth of the ttl, but no less than 5 ms
/// (a local network with a hiccup) and no more than 50 ms, so that a dead minority costs little.
const ACQUIRE_TIMEOUT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// How long one node may take to answer anything else, which nobody pays for with validity: 500 ms,
/// as for a request to a single server.
const PATIENCE: Duration = Duration::from_millis(500);

/// N independent stores, of which a majority decides.
///
/// What a majority of the nodes holds for one client, no other can have a majority of: so a lock
/// survives the loss of any minority, and no replication between the nodes is needed, nor wanted.
/// Each node must be a store of its own: not a replica of another, not one of the masters of one
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
///   guard is valid until the q-th latest of its nodes' deadlines, q being the majority. The nodes
///   need not show the same time, since a lease ends on each by its own clock; where one is taken
///   over by a replica, its quarantine sees to that, and without one `offset=` does.
/// - **Order of tokens** whatever clocks, pauses and the network do, as long as no node forgets:
///   a token is stored on a majority before it is given out, and every later majority has one of
///   those nodes.
/// - A minority that is down, unreachable or slow costs nothing but its share of the safety: nodes
///   are asked at the same time, and a call ends as soon as its outcome is certain.
/// - While no majority can be reached, nothing new is asked of the other nodes: however many wait,
///   each node that is away is asked now and then whether it is back.
///
/// A node that was restarted without its data is what breaks the first two; see `quarantine` of
/// the Redis store.
///
/// # Its nodes
///
/// All clients must mean the same servers: two lists of nodes may each have a majority. With
/// `redis+quorum://` no server counts twice, also when an address comes to lead to another node
/// later; and each client leaves its list at every node (in `lh:%nodes`; two round trips on
/// connecting, then a small script once a minute). Whoever connects is warned of other lists that
/// were used in the last 5 minutes, and `leasehold doctor` names them, too. With `layout=plain`
/// nothing of that is left, and without `+info` servers cannot be told apart.
///
/// To go over to other nodes, change one at a time: stop the one that goes, for good; without a
/// quarantine, wait for the longest ttl; then give all clients the new list, before the next one
/// goes. Until then old majorities are among the nodes that stay, so no new one can do without
/// them. The warning meanwhile is as it should be.
///
/// Nodes of one's own need a [retention](leasehold_core::model::LEAST_RETENTION) of 30 s, or tokens
/// of a name that they have forgotten may go back.
///
/// # What it cannot do
///
/// Permits of a semaphore of more than one: three users would each see a majority for two permits
/// on three nodes. And a queue: whoever waits is told when the lock is free and asks again, in no
/// order.
#[derive(Debug)]
pub struct Quorum {
    nodes: Arc<Nodes>,
}

impl Quorum {
    /// Makes a store of three to nine others. An even number is allowed, and tolerates no more
    /// failures than one less.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for too few or too many.
    pub fn new(nodes: Vec<Box<dyn Store>>) -> Result<Self, Invalid> {
        Self::with_clock(nodes, SystemClock::new())
    }

    /// The same on a clock of one's own, which must be the client's.
    ///
    /// # Errors
    ///
    /// As [`Quorum::new`].
    pub fn with_clock(nodes: Vec<Box<dyn Store>>, clock: impl Clock) -> Result<Self, Invalid> {
        let (count, (least, most)) = (nodes.len(), NODES);
        if count < least || count > most {
            let why =
                format!("a quorum of {count} stores: give {least} to {most}, best an odd number");
            return Err(Invalid::new("quorum", why));
        }
        let (seed, clock): (_, Arc<dyn Clock>) = (seed(), Arc::new(clock));
        let node = |store| Node::new(store, Arc::clone(&clock));
        Ok(Self {
            nodes: Arc::new(Nodes {
                nodes: nodes.into_iter().map(node).collect(),
                needed: majority(count),
                clock,
                leases: Mutex::default(),
                ballots: Mutex::default(),
                jitter: Mutex::new(Jitter::new(seed)),
                timeout: None,
            }),
        })
    }

    /// How long one node may take to answer, where that is far away: the same for all requests. By
    /// default a hundredth of the ttl for an acquire, at least 5 ms and at most 50 ms, and 500 ms
    /// for anything else.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        // Nobody else has them before the first request.
        if let Some(nodes) = Arc::get_mut(&mut self.nodes) {
            nodes.timeout = Some(timeout);
        }
        self
    }

    async fn run(&self, operation: Operation) -> Result<Answer, StoreError> {
        let nodes = &self.nodes;
        let (name, action) = match operation {
            Operation::List { prefix, limit, idle } => {
                return look::list(nodes, prefix, limit, idle).await;
            }
            Operation::Renew(renewals) => return renew::renew(nodes, renewals).await,
            Operation::On { name, action } => (name, action),
            _ => return Err(StoreError::unknown_request()),
        };
        if !nodes.all_can(needed_for(&action)) {
            return Err(beyond_a_node(&name));
        }
        let changing = Changing { nodes, name: &name };
        match action {
            Action::Acquire(request) => Attempt::new(nodes, &name, &request).run().await,
            Action::Adopt(request) => adopt::run(nodes, &name, &request).await,
            Action::Cancel { id, unanswered } => changing.cancel(id, unanswered).await,
            Action::ChangeMode { id, mode, change } => changing.change_mode(id, mode, change).await,
            Action::Commit { .. } | Action::Reclaim(_) => Err(unsupported(&name)),
            Action::Describe { id, facts } => changing.describe(id, facts).await,
            Action::Inspect { limit } => look::inspect(nodes, &name, limit).await,
            Action::Poll { id, ttl } => renew::poll(nodes, name, id, ttl).await,
            Action::Release { id, keep, unanswered } => {
                changing.release(id, keep, unanswered).await
            }
            Action::Renew { id, ttl, mode, change } => {
                let renewal = RenewLease::new(name, id, ttl, mode).with_change(change);
                renew::renew_one(nodes, renewal).await
            }
            Action::Revoke { id, token, force } => changing.revoke(id, token, force).await,
            Action::SetCapacity { .. } => Err(without_permits(&name)),
            _ => Err(StoreError::unknown_request()),
        }
    }
}

impl Store for Quorum {
    fn capabilities(&self) -> Capabilities {
        let all = |can| self.nodes.all_can(can);
        Capabilities {
            claims_first: true,
            durable: all(|can| can.durable),
            permits: false,
            queued: false,
            // Its nodes' memory is looked after at each renewal.
            reclaims: false,
            recorded_tokens: all(|can| can.recorded_tokens),
            shared: all(|can| can.shared),
            wakes: all(|can| can.wakes),
        }
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.run(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(news::inbox(&self.nodes, client))
    }

    fn clock_offset(&self) -> Duration {
        let each = self.nodes.nodes.iter().map(|node| node.store.inner.clock_offset());
        each.max().unwrap_or_default()
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (name, message) = (name.clone(), message.to_owned());
        Box::pin(async move { news::tell(&self.nodes, &name, &message).await })
    }

    fn subscribe(
        &self,
        name: &LockName,
    ) -> BoxFuture<'_, Result<Option<Box<dyn Subscription>>, StoreError>> {
        let name = name.clone();
        Box::pin(async move { news::listen(&self.nodes, &name).await })
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
            // What concerns all of them, each says.
            if !warnings.contains(&words) {
                warnings.push(words);
            }
        }
        warnings
    }
}

/// The nodes, and what all who use them share.
#[derive(Debug)]
struct Nodes {
    nodes: Vec<Arc<Node>>,
    /// How many make a majority.
    needed: usize,
    clock: Arc<dyn Clock>,
    leases: Mutex<Leases>,
    ballots: Mutex<Ballots>,
    jitter: Mutex<Jitter>,
    /// How long one node may take, if that is up to the user.
    timeout: Option<Duration>,
}

impl Nodes {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How long one node may take to answer an acquire with this ttl.
    fn acquire_timeout(&self, ttl: Duration) -> Duration {
        self.timeout.unwrap_or_else(|| default_timeout(ttl))
    }

    /// How long one node may take to answer anything else.
    fn patience(&self) -> Duration {
        self.timeout.unwrap_or(PATIENCE)
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ballots(&self) -> MutexGuard<'_, Ballots> {
        self.ballots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next ballot, where nodes come to one token.
    fn ballot(&self, now: Instant) -> Option<u64> {
        let clocks = self.nodes.iter().filter_map(|node| node.token_us(now));
        self.records_tokens().then(|| self.ballots().next(clocks, self.clock.wall_us()))
    }

    fn jitter(&self) -> MutexGuard<'_, Jitter> {
        self.jitter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn between(&self, low: Duration, high: Duration) -> Duration {
        self.jitter().between(low, high)
    }

    fn delay(&self, backoff: &mut Backoff) -> Duration {
        backoff.next_delay(&mut self.jitter())
    }

    fn seed(&self) -> u64 {
        self.jitter().next_u64()
    }

    fn records_tokens(&self) -> bool {
        self.all_can(|can| can.recorded_tokens)
    }

    fn all_can(&self, can: fn(Capabilities) -> bool) -> bool {
        self.nodes.iter().all(|node| can(node.store.inner.capabilities()))
    }

    /// An answer at the client's own time: leases of a quorum end by the client's clock, since each
    /// node has one of its own.
    fn answer(&self, at: Instant, reply: Reply) -> Answer {
        let now = Now { lease_us: micros(at.since_origin()), token_us: self.clock.wall_us() };
        Answer::new(now, reply)
    }

    /// Whether so many nodes can be reached, as far as is known, that a majority may be had.
    fn has_majority(&self) -> bool {
        self.nodes.iter().filter(|node| node.is_there()).count() >= self.needed
    }

    /// Whether so many nodes refuse that the others are no majority, and no waiting helps: what
    /// most of them say.
    fn refusal(&self, what: &str, errors: &[StoreError]) -> Option<StoreError> {
        let refusals = || errors.iter().filter(|error| !error.kind().is_outage());
        let often = |kind| refusals().filter(|error| error.kind() == kind).count();
        let (refused, nodes) = (refusals().count(), self.len());
        let most = refusals().max_by_key(|error| often(error.kind()))?;
        let why = format!("{what}: {refused} of {nodes} nodes refuse: {most}");
        (refused > nodes - self.needed).then(|| StoreError::new(most.kind(), why))
    }

    /// Too few nodes answered to know what came of it.
    fn undecided(&self, what: &str, answered: usize, errors: &[StoreError]) -> StoreError {
        let (nodes, needed) = (self.len(), self.needed);
        let why = format!("{what}: {answered} of {nodes} nodes answered, {needed} are needed");
        let unreachable = || StoreError::new(StoreErrorKind::Unreachable, why);
        self.refusal(what, errors).unwrap_or_else(unreachable).maybe_executed()
    }

    /// Too few nodes could be had.
    fn no_quorum(&self, name: &LockName, granted: usize) -> StoreError {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (granted, needed, nodes) = (count(granted), count(self.needed), count(self.len()));
        let why = format!(
            "{name}: {granted} of {nodes} nodes granted it and {needed} are needed: see which of \
             them can be reached"
        );
        StoreError::new(StoreErrorKind::NoQuorum { granted, needed, nodes }, why)
    }
}

/// A hundredth of the ttl, within bounds.
fn default_timeout(ttl: Duration) -> Duration {
    let (shortest, longest) = ACQUIRE_TIMEOUT;
    (ttl / 100).clamp(shortest, longest)
}

/// What each node must be capable of for this.
fn needed_for(action: &Action) -> fn(Capabilities) -> bool {
    let mode = match action {
        Action::Acquire(request) => request.mode,
        Action::Adopt(request) => request.mode,
        Action::ChangeMode { .. } => Mode::Shared,
        _ => Mode::Exclusive,
    };
    match mode {
        Mode::Permits { .. } => |can| can.permits,
        Mode::Shared | Mode::Upgradable => |can| can.shared,
        _ => |_| true,
    }
}

fn beyond_a_node(name: &LockName) -> StoreError {
    let why = format!(
        "{name}: a node of this quorum gives a lock to one holder, with no readers and no permits: \
         see `layout` in its store URL"
    );
    StoreError::new(StoreErrorKind::Unsupported, why)
}

fn without_permits(name: &LockName) -> StoreError {
    let why = format!(
        "{name}: a quorum cannot give permits of several: three users would each see a majority \
         for two permits on three nodes; use one primary, or a mutex for each permit"
    );
    StoreError::new(StoreErrorKind::Unsupported, why)
}

fn unsupported(name: &LockName) -> StoreError {
    let why = format!("{name}: a quorum is no node of another quorum");
    StoreError::new(StoreErrorKind::Unsupported, why)
}

/// Different in each process and for each quorum, so that no two pause alike.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
