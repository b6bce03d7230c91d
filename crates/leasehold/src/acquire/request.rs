//! The request of a call, and the attempts of the call. An attempt takes a name, perhaps several
//! times, and ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Action, BoxFuture, End, Instant, LeaseOptions, LockName, Mode, Operation, Reply, Request,
    Result, StoreError, StoreErrorKind, Take,
};

use crate::keeper::{Attempt, Keeper, Mailbox, Polled};
use crate::store::clocked::TimedAnswer;

/// If no answer comes, a try asks again for 2 s: enough for four requests with the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// The time beyond its limit that a call may take to leave the queue properly: enough for one
/// request.
const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

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

    pub(super) fn waits(&self) -> bool {
        self.limit != Limit::Try
    }

    pub(super) fn give_up(&self) -> Option<Instant> {
        match self.limit {
            Limit::Forever => None,
            Limit::Try => Some(self.started + TRY_PATIENCE),
            Limit::Within(span) => Some(self.started + span),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.give_up().is_some_and(|limit| self.keeper.store.now() >= limit)
    }

    /// A future that completes when the call's limit is reached.
    pub(super) fn at_limit(&self) -> BoxFuture<'static, ()> {
        match self.give_up() {
            Some(limit) => self.keeper.store.clock.sleep_until(limit),
            None => Box::pin(std::future::pending()),
        }
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
        select(Box::pin(prepared.wait()), self.at_limit()).await;
        self.keeper.ensure_open().map(|()| true)
    }

    fn request(&self) -> Request {
        let info = self.keeper.info(self.options.label.clone());
        Request::new(self.keeper.next_attempt(), self.mode, info)
    }
}

/// The present attempt of a call. If this value is dropped before the attempt has ended, the keeper
/// ends it. So a dropped future leaves nothing behind.
pub(super) struct OwnAttempt<'a> {
    keeper: &'a Arc<Keeper>,
    pub(super) attempt: Attempt,
    /// What the keeper has for the attempt, once it is registered there.
    pub(super) mailbox: Option<Arc<Mailbox>>,
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
        let attempt = Attempt {
            name: asked.name.clone(),
            request: asked.request(),
            options: Arc::clone(asked.options),
            gathers: asked.gathers.clone(),
            joins: asked.joins,
            unanswered: false,
        };
        let keeper = asked.keeper;
        Self { keeper, attempt, mailbox: None, place: None, known: false, in_flight: false }
    }

    /// Ends this attempt, and begins with a new one.
    pub(super) fn renew(&mut self, asked: &Asked<'_>) -> Result<()> {
        self.clean();
        self.attempt.request = asked.request();
        (self.attempt.unanswered, self.place) = (false, None);
        self.register()
    }

    /// Registers the attempt at the keeper before it is sent: its grant may be announced before
    /// the answer that it was queued, and its client may be closed before any answer.
    pub(super) fn register(&mut self) -> Result<()> {
        self.mailbox = Some(self.keeper.register(&self.attempt)?);
        Ok(())
    }

    /// Sends a request of the attempt, at `now`. `ask` says how the attempt takes the name.
    pub(super) async fn send(
        &mut self,
        ask: impl FnOnce(Take) -> Take,
        now: Instant,
        until: Option<Instant>,
    ) -> Result<TimedAnswer, StoreError> {
        let Attempt { name, request, options, .. } = &self.attempt;
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
        self.attempt.unanswered |= is_unanswered;
        self.known = self.attempt.unanswered || may_be_known;
        result
    }

    fn end(&self) -> End {
        let closes = self.attempt.unanswered || self.in_flight;
        End::new(self.attempt.request.clone()).with_closes(closes)
    }

    /// Makes the keeper end the attempt, if the store may have it.
    fn clean(&mut self) {
        if self.mailbox.take().is_some() {
            self.keeper.unregister(self.attempt.request.id);
        }
        if std::mem::take(&mut self.known) && !bugs::is_on(Bug::DropWithoutCancel) {
            let Attempt { name, options, .. } = &self.attempt;
            self.keeper.clean(name.clone(), self.end(), options.ttl);
        }
    }

    /// Ends the attempt. If this fails, the drop of the attempt leaves the end to the keeper.
    pub(super) async fn end_now(&mut self, until: Instant) -> Result<(), StoreError> {
        if self.known {
            let (name, action) = (self.attempt.name.clone(), Action::End(self.end()));
            let store = &self.keeper.store;
            let end = Operation::On { name, action };
            store.execute_at(end, store.now(), Some(until)).await?;
            self.known = false;
        }
        Ok(())
    }

    /// Marks the attempt as ended: the keeper has made a lease of it.
    pub(super) fn finish(&mut self) {
        (self.known, self.mailbox) = (false, None);
    }
}

impl Drop for OwnAttempt<'_> {
    fn drop(&mut self) {
        self.clean();
    }
}

/// Whether the store has granted the lease but does not vouch for the grant: replicas did not
/// acknowledge it, or the store may have forgotten an earlier holder. The store answers the same
/// attempt again, and keeps the grant until the attempt is ended.
pub(super) fn is_granted_in_vain(error: &StoreError) -> bool {
    error.may_have_executed()
        && matches!(error.kind(), StoreErrorKind::NotReplicated | StoreErrorKind::Quarantined)
}
