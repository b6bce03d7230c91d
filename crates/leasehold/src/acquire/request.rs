//! Requests of calls: what they ask for, and for how long.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, LeaseOptions, LockName, Mode, Operation, StoreError};

use crate::engine::Engine;
use crate::keeper::{Attempt, Keeper, PendingRelease, Poller, Pulse};
use crate::store::clocked::TimedAnswer;

/// If no answer comes, a try goes on asking for 2 s, four requests of the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// The time beyond its limit that a call may take to leave the queue properly: one request.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Forever,
    Try,
    Within(Duration),
}

/// What a call asks for.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) name: &'a LockName,
    pub(crate) mode: Mode,
    pub(crate) options: &'a LeaseOptions,
    /// The pulse of the call, if it gathers several names: it delivers them together.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// Others of its client may pass the lease on to it, and it to them.
    pub(crate) joins: bool,
}

/// A question to a store: what a call asks for, and until when.
pub(super) struct Asked<'a> {
    pub(super) engine: &'a Engine,
    pub(super) keeper: &'a Arc<Keeper>,
    pub(super) request: &'a Request<'a>,
    pub(super) limit: Limit,
    pub(super) started: Instant,
    give_up: Option<Instant>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        request: &'a Request<'a>,
        limit: Limit,
        started: Instant,
    ) -> Self {
        let give_up = match limit {
            Limit::Forever => None,
            Limit::Try => Some(started + TRY_PATIENCE),
            Limit::Within(span) => Some(started + span),
        };
        Self { engine, keeper: &engine.keeper, request, limit, started, give_up }
    }

    /// An attempt that nobody knows yet.
    pub(super) fn attempt(&self) -> Attempt {
        let Request { name, mode, options, pulse, joins } = self.request;
        let (id, nonce) = self.engine.next_attempt();
        Attempt {
            name: (*name).clone(),
            id,
            nonce,
            mode: *mode,
            options: (*options).clone(),
            pulse: pulse.clone(),
            joins: *joins,
            ticket: None,
            unanswered: false,
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.limit != Limit::Try
    }

    pub(super) fn give_up(&self) -> Option<Instant> {
        self.give_up
    }

    /// Asks the store, for little longer than the limit: an answer that is under way is worth
    /// more than none.
    pub(super) async fn ask(
        &self,
        operation: Operation,
        sent: Instant,
    ) -> Result<TimedAnswer, StoreError> {
        let until = self.give_up.map(|limit| limit + LEAVE_PATIENCE);
        self.keeper.store.execute_at(operation, sent, until).await
    }

    /// Lets others have their chance where nobody queues: what asks right after it has let go would
    /// always be the first.
    pub(super) async fn make_way(&self, release: Option<PendingRelease>) -> Option<PendingRelease> {
        let store = &self.keeper.store;
        if store.inner.capabilities().queued {
            return release;
        }
        if let Some(release) = release {
            release.send().await;
        }
        Poller::make_way(store, &mut self.engine.jitter()).await;
        None
    }

    pub(super) fn is_over(&self) -> bool {
        self.give_up.is_some_and(|limit| self.keeper.store.now() >= limit)
    }

    /// The end of the time for a last request: a cancel, or the question who holds the lock.
    pub(super) fn leave_until(&self) -> Instant {
        self.keeper.store.now() + LEAVE_PATIENCE
    }

    /// Ends when the call's limit is reached.
    pub(super) fn at_limit(&self) -> BoxFuture<'static, ()> {
        match self.give_up {
            Some(limit) => self.keeper.store.clock.sleep_until(limit),
            None => Box::pin(std::future::pending()),
        }
    }
}
