//! The request of a call, and the attempts of the call. An attempt takes a name, perhaps several
//! times, and ends. A request that failed is sent again.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Action, End, Instant, LeaseOptions, LockName, Mode, Operation, Reply, Request, Result,
    StoreError, StoreErrorKind, Take,
};

use crate::clock::within;
use crate::keeper::{Attempt, Keeper, Polled};
use crate::store::clocked::{ClockedStore, TimedAnswer};

/// If no answer comes, a try asks again for 2 s: enough for four requests with the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// The time beyond its limit that a call may take to leave the queue properly: enough for one
/// request.
const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// The first and the longest delay before a request that failed is sent again. A random part of up
/// to a half is subtracted: callers that wait for the same store must not all come back at the same
/// time.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Forever,
    Try,
    Within(Duration),
}

/// The request of a call, and how long it waits.
#[derive(Clone)]
pub(crate) struct Asked<'a> {
    pub(crate) keeper: &'a Arc<Keeper>,
    pub(crate) name: &'a LockName,
    pub(crate) mode: Mode,
    pub(crate) options: &'a Arc<LeaseOptions>,
    /// If the call gathers several names and delivers their leases together, when it was polled
    /// last.
    pub(crate) gathers: Option<Arc<Polled>>,
    /// Whether this caller stands at its client's gate: callers there pass the lease on to each
    /// other.
    pub(crate) joins: bool,
    pub(crate) limit: Limit,
    pub(crate) started: Instant,
    /// The number of the call in its events.
    pub(crate) call: u64,
}

impl Asked<'_> {
    /// The same request, as a try that begins now.
    pub(super) fn tried(&self, now: Instant) -> Self {
        Self { limit: Limit::Try, started: now, ..self.clone() }
    }

    /// Whether the call waits for a busy name. A call without any time does not queue: later
    /// callers would wait for it.
    pub(super) fn waits(&self) -> bool {
        !matches!(self.limit, Limit::Try | Limit::Within(Duration::ZERO))
    }

    pub(super) fn give_up(&self) -> Option<Instant> {
        match self.limit {
            Limit::Forever => None,
            Limit::Try | Limit::Within(Duration::ZERO) => Some(self.started + TRY_PATIENCE),
            Limit::Within(span) => Some(self.started + span),
        }
    }

    /// The outcome of a call that does not wait, if the name is busy.
    pub(super) async fn busy<T>(&self) -> Result<Option<T>> {
        match self.limit {
            Limit::Try => Ok(None),
            Limit::Forever | Limit::Within(_) => Err(self.timeout(self.leave_until(), false).await),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.give_up().is_some_and(|limit| self.keeper.store.now() >= limit)
    }

    /// Waits for a part of the call; `None` if the call's limit comes first.
    pub(super) async fn until_limit<T>(&self, part: impl Future<Output = T> + Unpin) -> Option<T> {
        within(&*self.keeper.store.clock, self.give_up(), part).await
    }

    /// The latest time for an answer: shortly after the limit, because an answer that is under way
    /// is worth more than none.
    pub(super) fn answer_until(&self) -> Option<Instant> {
        self.give_up().map(|limit| limit + LEAVE_PATIENCE)
    }

    /// The latest time for the answer to a last request: an end, or a look at the holders.
    pub(super) fn leave_until(&self) -> Instant {
        self.keeper.store.now() + LEAVE_PATIENCE
    }

    /// Waits until the keeper has opened what renewals need. Returns whether that took any time.
    pub(super) async fn prepared(&self) -> Result<bool> {
        let prepared = &self.keeper.prepared;
        if prepared.initialized() {
            return Ok(false);
        }
        self.until_limit(Box::pin(prepared.wait())).await;
        self.keeper.ensure_open().map(|()| true)
    }

    fn attempt(&self) -> Arc<Attempt> {
        let info = self.keeper.info(self.options.label.clone());
        let request = Request::new(self.keeper.next_attempt(), self.mode, info);
        let (options, gathers) = (Arc::clone(self.options), self.gathers.clone());
        Attempt::new(self.name.clone(), request, options, gathers, self.joins)
    }
}

/// The present attempt of a call. If this value is dropped before the attempt has ended, the keeper
/// ends it. So a dropped future leaves nothing behind.
pub(super) struct OwnAttempt<'a> {
    keeper: &'a Arc<Keeper>,
    pub(super) attempt: Arc<Attempt>,
    /// Whether the keeper knows the attempt.
    pub(super) is_registered: bool,
    /// A copy of a request was not answered, as far as is known.
    pub(super) unanswered: bool,
    /// The place that the store has given the attempt.
    pub(super) place: Option<u64>,
    /// The store may have the attempt, so it must be ended.
    pub(super) known: bool,
    /// A request of the attempt is on its way.
    in_flight: bool,
}

impl<'a> OwnAttempt<'a> {
    /// An attempt that neither the keeper nor the store has yet.
    pub(super) fn new(asked: &Asked<'a>) -> Self {
        let (keeper, attempt, place) = (asked.keeper, asked.attempt(), None);
        let [is_registered, unanswered, known, in_flight] = [false; 4];
        Self { keeper, attempt, is_registered, unanswered, place, known, in_flight }
    }

    /// Ends this attempt, and begins with a new one.
    pub(super) fn renew(&mut self, asked: &Asked<'a>) -> Result<()> {
        *self = Self::new(asked);
        self.register()
    }

    /// Registers the attempt at the keeper before it is sent: its grant may be announced before
    /// the answer that it was queued, and its client may be closed before any answer.
    pub(super) fn register(&mut self) -> Result<()> {
        self.keeper.register(&self.attempt)?;
        self.is_registered = true;
        Ok(())
    }

    /// Sends a request of the attempt, at `now`. `ask` says how the attempt takes the name.
    pub(super) async fn send(
        &mut self,
        ask: impl FnOnce(Take) -> Take,
        now: Instant,
        until: Option<Instant>,
    ) -> Result<TimedAnswer, StoreError> {
        let Attempt { name, request, options, .. } = &*self.attempt;
        let take = Take::new(request.clone(), options.ttl)
            .with_place(self.place)
            .with_once_per(options.once_per);
        let operation = Operation::On { name: name.clone(), action: Action::Take(ask(take)) };
        let was_known = std::mem::replace(&mut self.known, true);
        self.in_flight = true;
        let result = self.keeper.store.execute_at(operation, now, until).await;
        self.in_flight = false;
        let (is_unanswered, may_be_known) = match &result {
            Ok(timed) => {
                use Reply::{Done, Granted, Queued};
                (false, matches!(timed.answer.reply, Done { .. } | Granted(_) | Queued(_)))
            }
            Err(error) => {
                let may_be_known = error.may_have_executed();
                (may_be_known && !is_granted_in_vain(error), was_known || may_be_known)
            }
        };
        self.unanswered |= is_unanswered;
        self.known = self.unanswered || may_be_known;
        result
    }

    /// The attempt, and whether a copy of a request was not answered.
    pub(super) fn asked(&self) -> (&Arc<Attempt>, bool) {
        (&self.attempt, self.unanswered)
    }

    /// Whether a copy of a request may still arrive after the attempt has ended.
    fn closes(&self) -> bool {
        self.unanswered || self.in_flight
    }

    /// Ends the attempt. If this fails, the drop of the attempt leaves the end to the keeper.
    pub(super) async fn end_now(&mut self, until: Instant) -> Result<(), StoreError> {
        if self.known {
            let Attempt { name, request, .. } = &*self.attempt;
            let end = End::new(request.clone()).with_closes(self.closes());
            let end = Operation::On { name: name.clone(), action: Action::End(end) };
            let store = &self.keeper.store;
            store.execute_at(end, store.now(), Some(until)).await?;
            self.known = false;
        }
        Ok(())
    }

    /// Marks the attempt as ended: the keeper has made a lease of it.
    pub(super) fn finish(&mut self) {
        (self.known, self.is_registered) = (false, false);
    }
}

impl Drop for OwnAttempt<'_> {
    /// Makes the keeper end the attempt, if the store may have it.
    fn drop(&mut self) {
        if self.is_registered {
            self.keeper.unregister(&self.attempt);
        }
        if self.known && !bugs::is_on(Bug::DropWithoutCancel) {
            self.keeper.clean(&self.attempt, self.closes());
        }
    }
}

/// The retries of a call, across all its attempts: each failure makes the next delay longer, until
/// the store answers.
pub(super) struct Retry {
    pub(super) backoff: Backoff,
    /// When the last request was sent again.
    pub(super) at: Instant,
}

impl Retry {
    /// The state before the first request.
    pub(super) fn new(jitter: Jitter, now: Instant) -> Self {
        Self { backoff: Backoff::new(RETRY_BACKOFF, jitter), at: now }
    }

    /// Pauses, but not past the limit of the call: the last try is made at the limit, and its
    /// failure says what was in the way at the end.
    pub(super) async fn pause(&mut self, store: &ClockedStore, limit: Option<Instant>) {
        let delay = self.backoff.next_delay();
        let delay = self.backoff.jitter.between(delay / 2, delay);
        let at = store.now() + delay;
        self.at = limit.map_or(at, |limit| at.min(limit));
        store.clock.sleep_until(self.at).await;
    }
}

/// Whether the store has granted the lease but does not vouch for the grant: replicas did not
/// acknowledge it, or the store may have forgotten an earlier holder. The store answers the same
/// attempt again, and keeps the grant until the attempt is ended.
pub(super) fn is_granted_in_vain(error: &StoreError) -> bool {
    error.may_have_executed()
        && matches!(error.kind(), StoreErrorKind::NotReplicated | StoreErrorKind::Quarantined)
}
