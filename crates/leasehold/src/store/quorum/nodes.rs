//! The nodes of a quorum, and the state that all requests to them share.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Jitter;
use leasehold_core::quorum::{Ballots, RenewTally, majority};
use leasehold_core::{Clock, Instant, LockName, StoreError, StoreErrorKind};

use super::leases::Leases;
use super::node::{Node, Result, no_answer, seed};
use crate::clock::within;
use crate::mutex::Mutex;
use crate::store::{Capabilities, Store};

/// A node must answer an acquire within a hundredth of the ttl. These are the bounds of that time:
/// at least 5 ms (a local network with a hiccup), and at most 50 ms, so that a dead minority costs
/// little.
const ACQUIRE_TIMEOUT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// The time within which a node must answer all other requests: 500 ms, as for a request to a
/// single server. These requests cost no validity.
const PATIENCE: Duration = Duration::from_millis(500);

/// The nodes, and the state that all requests to them share.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The number of nodes that make a majority.
    pub(super) needed: usize,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) leases: Mutex<Leases>,
    pub(super) ballots: Mutex<Ballots>,
    jitter: Mutex<Jitter>,
    /// The time within which a node must answer, if the user has set it.
    pub(super) timeout: Option<Duration>,
}

impl Nodes {
    /// Makes a node of each of `stores`, of which there are at least three.
    pub(super) fn new(stores: Vec<Box<dyn Store>>, clock: Arc<dyn Clock>) -> Self {
        let needed = majority(stores.len());
        let node = |store| Node::new(store, Arc::clone(&clock));
        Self {
            nodes: stores.into_iter().map(node).collect(),
            needed,
            leases: Mutex::default(),
            ballots: Mutex::default(),
            jitter: Mutex::new(Jitter::new(seed())),
            timeout: None,
            clock,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The time within which a node must answer an acquire with this ttl.
    pub(super) fn acquire_timeout(&self, ttl: Duration) -> Duration {
        self.timeout.unwrap_or_else(|| default_timeout(ttl))
    }

    /// The time within which a node must answer all other requests.
    pub(super) fn patience(&self) -> Duration {
        self.timeout.unwrap_or(PATIENCE)
    }

    /// The count of a renewal, without votes yet.
    pub(super) fn tally(&self) -> RenewTally {
        RenewTally::new(self.len(), self.needed)
    }

    /// The next ballot, if the nodes can agree on a token.
    pub(super) fn ballot(&self, now: Instant) -> Option<u64> {
        let clocks = self.nodes.iter().filter_map(|node| node.token_us(now));
        self.records_tokens().then(|| self.ballots.lock().next(clocks, self.clock.wall_us()))
    }

    pub(super) fn between(&self, low: Duration, high: Duration) -> Duration {
        self.jitter.lock().between(low, high)
    }

    pub(super) fn records_tokens(&self) -> bool {
        self.all_can(|can| can.recorded_tokens)
    }

    pub(super) fn all_can(&self, can: fn(Capabilities) -> bool) -> bool {
        self.nodes.iter().all(|node| can(node.store.inner.capabilities()))
    }

    /// How many of the answering nodes must have a hold or a name so that, together with all silent
    /// nodes, a majority may have it.
    pub(super) fn least(&self, answered: usize) -> usize {
        self.needed.saturating_sub(self.len() - answered).max(1)
    }

    /// Whether a majority of the nodes can be reached, as far as is known.
    pub(super) fn has_majority(&self) -> bool {
        self.nodes.iter().filter(|node| node.is_there()).count() >= self.needed
    }

    /// The most frequent error of the refusing nodes, if the other nodes are no majority: then
    /// waiting does not help.
    pub(super) fn refusal(&self, what: &str, errors: &[StoreError]) -> Option<StoreError> {
        let refusals = || errors.iter().filter(|error| !error.kind().is_outage());
        let often = |kind| refusals().filter(|error| error.kind() == kind).count();
        let (refused, nodes) = (refusals().count(), self.len());
        let most = refusals().max_by_key(|error| often(error.kind()))?;
        let why = format!("{what}: {refused} of {nodes} nodes refuse: {most}");
        (refused > nodes - self.needed).then(|| StoreError::new(most.kind(), why))
    }

    /// Gives up a request that takes longer than a node may take.
    pub(super) async fn in_time<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let until = self.clock.now() + self.patience();
        let answer = within(&*self.clock, until, pin!(request)).await;
        answer.unwrap_or_else(|| Err(no_answer()))
    }

    /// The error if too few nodes answered for the outcome to be known.
    pub(super) fn undecided(
        &self,
        what: &str,
        answered: usize,
        errors: &[StoreError],
    ) -> StoreError {
        let (nodes, needed) = (self.len(), self.needed);
        let mut refusals = errors.iter().filter(|error| !error.kind().is_outage());
        let answered = answered + refusals.clone().count();
        let of_which = refusals.next_back().map(|error| format!("; one refuses: {error}"));
        let of_which = of_which.unwrap_or_default();
        let why =
            format!("{what}: {answered} of {nodes} nodes answered, {needed} are needed{of_which}");
        let unreachable = || StoreError::new(StoreErrorKind::Unreachable, why);
        self.refusal(what, errors).unwrap_or_else(unreachable).maybe_executed()
    }

    /// The error if too few nodes could be reached or granted.
    pub(super) fn no_quorum(&self, name: &LockName, granted: usize) -> StoreError {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (granted, needed, nodes) = (count(granted), count(self.needed), count(self.len()));
        let why = format!(
            "{name}: {granted} of {nodes} nodes granted the name and {needed} are needed: see \
             which of them can be reached"
        );
        StoreError::new(StoreErrorKind::NoQuorum { granted, needed, nodes }, why)
    }
}

/// A hundredth of the ttl, within bounds.
pub(super) fn default_timeout(ttl: Duration) -> Duration {
    let (shortest, longest) = ACQUIRE_TIMEOUT;
    (ttl / 100).clamp(shortest, longest)
}
