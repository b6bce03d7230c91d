//! One node: a store, its clock, and whether it can be reached.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::text::show_duration;
use leasehold_core::time::micros;
use leasehold_core::{
    Action, Bounds, BoxFuture, Clock, HolderId, Instant, LockName, Operation, StoreError,
    StoreErrorKind,
};
use tokio::sync::watch;

use crate::background;
use crate::clock::within;
use crate::event::Observers;
use crate::failures::is_out_of_reach;
use crate::mutex::Mutex;
use crate::replies::unreadable;
use crate::store::clocked::{ClockedStore, TimedAnswer};
use crate::store::traits::{Store, shard_name};

/// After this silence a node is away: 1 s.
const SILENCE: Duration = Duration::from_secs(1);

/// The first and the longest pause between two probes of a node that is away. A node that is back
/// may go unnoticed for the longest pause.
const PROBE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// How long the background thread waits for the answer to a request that its caller has left: 500
/// ms, as for any request. In that time, it follows no other request.
const FOLLOWED: Duration = Duration::from_millis(500);

/// How long a probe may take: 1 s, enough for a connection to another continent and an answer.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// The result of a request to a node, or to several.
pub(super) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// One of the stores of a quorum.
///
/// A node that cannot be reached is *away*: nothing is sent to it, and requests fail immediately,
/// while the background thread probes whether it is back. So an outage costs the same whatever the
/// number of callers, and no caller waits for a node that will not answer.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) store: ClockedStore,
    /// The attempts that the node has yet to end, and why it could not end each the last time.
    pub(super) cleanups: Mutex<HashMap<HolderId, watch::Receiver<Option<StoreError>>>>,
    state: Mutex<Presence>,
    /// The error because of which the node is away; `None` while it is not away.
    away: watch::Sender<Option<StoreError>>,
}

#[derive(Debug, Default)]
struct Presence {
    /// The time of the first request without an answer, since the node's last answer.
    silent_since: Option<Instant>,
    /// Whether the background thread probes the node, to find out when it is back.
    is_probed: bool,
    /// The time before which no further request is followed, because one is being followed now, or
    /// was followed a moment ago.
    follows_after: Option<Instant>,
}

/// The number of a node, and its answer or its error.
pub(super) type NodeReply<T = TimedAnswer> = (usize, Result<T>);

/// Answers of nodes that have not come yet.
pub(super) type Pending<'a, T> = FuturesUnordered<BoxFuture<'a, NodeReply<T>>>;

type Asking = BoxFuture<'static, Result<TimedAnswer>>;

/// A request to a node. Its caller leaves it as soon as enough other nodes have answered. A node
/// that always answers last must still have a connection, the scripts and a clock sample. So the
/// background thread follows such a request to its end now and then.
struct FollowedRequest {
    node: Arc<Node>,
    asking: Option<Asking>,
}

impl Future for FollowedRequest {
    type Output = Result<TimedAnswer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(asking) = &mut self.asking else { return Poll::Ready(Err(no_answer())) };
        let answer = ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(answer)
    }
}

impl Drop for FollowedRequest {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            self.node.follow(asking);
        }
    }
}

impl Node {
    pub(super) fn new(store: Box<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        // There are no warnings of a clock that was set, because leases of a quorum end by the
        // client's own clock.
        let store = ClockedStore::new(store, clock, Bounds::default(), Observers::default());
        let (cleanups, state) = (Mutex::default(), Mutex::default());
        Arc::new(Self { store, cleanups, state, away: watch::Sender::default() })
    }

    /// Asks the node, unless the node is away. The request goes on while the caller polls the
    /// future.
    pub(super) async fn ask(self: &Arc<Self>, operation: Operation) -> Result<TimedAnswer> {
        let away = self.away.borrow().clone();
        match away {
            Some(why) => Err(why),
            None => self.ask_anyway(operation).await,
        }
    }

    /// Asks the node even while it is away: the holder of a lease does not wait for a probe.
    pub(super) async fn ask_anyway(self: &Arc<Self>, operation: Operation) -> Result<TimedAnswer> {
        let node = Arc::clone(self);
        let asking = async move { node.send(operation).await };
        FollowedRequest { node: Arc::clone(self), asking: Some(Box::pin(asking)) }.await
    }

    async fn send(self: &Arc<Self>, operation: Operation) -> Result<TimedAnswer> {
        let name = shard_name(&operation).cloned();
        match self.store.send(operation, self.store.now()).await {
            Ok(timed) => {
                self.answered();
                match name.and_then(|name| unreadable(&name, &timed.answer.reply)) {
                    Some(refusal) => Err(refusal),
                    None => Ok(timed),
                }
            }
            Err(error) => {
                if is_out_of_reach(&error) && !error.may_have_executed() {
                    self.leave(error.clone());
                }
                Err(error)
            }
        }
    }

    fn answered(&self) {
        self.state.lock().silent_since = None;
        self.come_back();
    }

    /// Waits in the background for the answer to a request that its caller has left, for one
    /// request at a time.
    fn follow(self: &Arc<Self>, asking: Asking) {
        let now = self.store.clock.now();
        let until = now + FOLLOWED;
        let mut state = self.state.lock();
        if state.follows_after.is_some_and(|after| now < after) {
            return;
        }
        state.follows_after = Some(until);
        drop(state);
        let clock = Arc::clone(&self.store.clock);
        let following = async move { drop(within(&*clock, until, asking).await) };
        // If no thread can be started, the request is not followed.
        let _ = background::spawn(&*self.store.clock, Box::pin(following));
    }

    /// Records that a request that was sent at `sent` had no answer in time.
    pub(super) fn did_not_answer(self: &Arc<Self>, sent: Instant) {
        let since = *self.state.lock().silent_since.get_or_insert(sent);
        let silence = self.store.clock.now().saturating_since(since);
        if silence >= SILENCE {
            let why = format!("the node has not answered for {}", show_duration(silence));
            self.leave(StoreError::new(StoreErrorKind::Unreachable, why));
        }
    }

    // ---- away

    /// Whether the node is not away.
    pub(super) fn is_there(&self) -> bool {
        self.away.borrow().is_none()
    }

    /// Waits until the node is not away.
    pub(super) async fn until_there(&self) {
        // The sender lives as long as `self`.
        let _ = self.away.subscribe().wait_for(Option::is_none).await;
    }

    /// Marks the node as away, and has it probed until it is back.
    fn leave(self: &Arc<Self>, why: StoreError) {
        let mut state = self.state.lock();
        self.away.send_if_modified(|away| away.is_none() && away.replace(why).is_none());
        if std::mem::replace(&mut state.is_probed, true) {
            return;
        }
        let probing = probe_until_back(Arc::downgrade(self), Arc::clone(&self.store.clock));
        if background::spawn(&*self.store.clock, Box::pin(probing)).is_err() {
            // Without probes, the next request finds out whether the node is back.
            state.is_probed = false;
            self.away.send_replace(None);
        }
    }

    fn come_back(&self) {
        self.away.send_if_modified(|away| away.take().is_some());
    }

    /// Whether the node is back, and needs no more probes.
    fn is_found(&self) -> bool {
        let mut state = self.state.lock();
        state.is_probed = !self.is_there();
        !state.is_probed
    }

    /// Asks the node whether it answers again.
    async fn probe(&self) {
        let (name, action) = (LockName::hashed("probe"), Action::Look { limit: 0 });
        let sent = self.store.clock.now();
        let asking = pin!(self.store.send(Operation::On { name, action }, sent));
        match within(&*self.store.clock, sent + PROBE_PATIENCE, asking).await {
            Some(Ok(_)) => self.answered(),
            // A refusal is an answer.
            Some(Err(error)) if !is_out_of_reach(&error) => self.come_back(),
            Some(Err(_)) | None => {}
        }
    }

    // ---- its clock

    /// A lower bound of the node's token time at `now`.
    pub(super) fn token_us(&self, now: Instant) -> Option<u64> {
        let sample = self.store.newest_of_all()?;
        Some(sample.token_us.saturating_add(micros(now.saturating_since(sample.received))))
    }
}

/// Probes a node now and then until it is back, or is no longer used.
async fn probe_until_back(node: Weak<Node>, clock: Arc<dyn Clock>) {
    let mut backoff = Backoff::new(PROBE_BACKOFF, Jitter::new(seed()));
    loop {
        clock.sleep_until(clock.now() + backoff.next_delay()).await;
        let Some(node) = node.upgrade() else { return };
        if !node.is_there() {
            node.probe().await;
        }
        if node.is_found() {
            return;
        }
    }
}

/// The error of a node that did not answer in time.
pub(super) fn no_answer() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, "the node did not answer in time").maybe_executed()
}

/// A seed that differs in each process, and for each node and quorum, so that their pauses differ.
pub(super) fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
