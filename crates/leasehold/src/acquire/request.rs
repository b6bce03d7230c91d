//! What a call asks for, and its attempts: an acquire that may be sent several times, its cancel.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Acquire, Action, BoxFuture, Instant, LeaseOptions, LockName, Mode, Operation, Reply, Result,
    StoreError, StoreErrorKind,
};

use crate::keeper::{Ask, Attempt, Keeper, Left, PendingRelease, Poller, Pulse, Step};
use crate::store::clocked::TimedAnswer;

/// If no answer comes, a try goes on asking for 2 s, four requests of the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// The time beyond its limit that a call may take to leave the queue properly: one request.
pub(super) const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Forever,
    Try,
    Within(Duration),
}

/// What a call asks for, and how long it waits.
#[derive(Clone)]
pub(crate) struct Asked<'a> {
    pub(crate) keeper: &'a Arc<Keeper>,
    pub(crate) name: &'a LockName,
    pub(crate) mode: Mode,
    pub(crate) options: &'a LeaseOptions,
    /// The pulse of the call, if it gathers several names: it delivers them together.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// Others of its client may pass the lease on to it, and it to them.
    pub(crate) joins: bool,
    pub(crate) limit: Limit,
    pub(crate) started: Instant,
}

impl Asked<'_> {
    /// The same, as a try that begins now.
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

    /// Ends when the call's limit is reached.
    pub(super) fn at_limit(&self) -> BoxFuture<'static, ()> {
        match self.give_up() {
            Some(limit) => self.keeper.store.clock.sleep_until(limit),
            None => Box::pin(std::future::pending()),
        }
    }

    /// The end of the time for an answer: little after the limit, since an answer that is under way
    /// is worth more than none.
    pub(super) fn answer_until(&self) -> Option<Instant> {
        self.give_up().map(|limit| limit + LEAVE_PATIENCE)
    }

    /// The end of the time for a last request: a cancel, or the question who holds the lock.
    pub(super) fn leave_until(&self) -> Instant {
        self.keeper.store.now() + LEAVE_PATIENCE
    }

    /// Finds out what time it is at the store, which every acquire must carry.
    pub(super) async fn sample_clock(&self, until: Option<Instant>) -> Result<(), StoreError> {
        let action = Action::Inspect { limit: 0 };
        let inspect = Operation::On { name: self.name.clone(), action };
        let store = &self.keeper.store;
        store.execute_at(inspect, store.now(), until).await.map(drop)
    }

    /// Lets other clients have their chance where nobody queues. A client that asks right after it
    /// has let go would always be the first.
    pub(super) async fn make_way(&self, release: Option<PendingRelease>) -> Option<PendingRelease> {
        let store = &self.keeper.store;
        if store.inner.capabilities().queued {
            return release;
        }
        if let Some(release) = release {
            release.send().await;
        }
        Poller::make_way(store, &mut self.keeper.jitter()).await;
        None
    }
}

/// The present attempt of a call, sent or about to be sent, and its place in line. If it is dropped
/// before it has ended, the next in line gets both, or the keeper cancels the attempt. So a dropped
/// future leaves nothing behind.
pub(super) struct OwnAttempt {
    keeper: Arc<Keeper>,
    pub(super) attempt: Attempt,
    /// The keeper knows it as a waiter, or in line.
    is_waiter: bool,
    /// The store may know it, so it must be cancelled unless somebody else looks after it.
    pub(super) known: bool,
    /// A copy is on its way.
    in_flight: bool,
}

impl OwnAttempt {
    /// An attempt that nobody knows yet.
    pub(super) fn new(asked: &Asked<'_>) -> Self {
        let (id, nonce) = asked.keeper.next_attempt();
        let attempt = Attempt {
            name: asked.name.clone(),
            id,
            nonce,
            mode: asked.mode,
            options: asked.options.clone(),
            pulse: asked.pulse.clone(),
            joins: asked.joins,
            ticket: None,
            unanswered: false,
        };
        let keeper = Arc::clone(asked.keeper);
        Self { keeper, attempt, is_waiter: false, known: false, in_flight: false }
    }

    /// Joins the queue of its name. One that waits is made known to the keeper before it is sent,
    /// because its grant may arrive before the answer that it was queued.
    pub(super) fn join(&mut self, waits: bool, now: Instant) -> Result<Step> {
        let step = self.keeper.join(&mut self.attempt, waits, now)?;
        self.is_waiter = match &step {
            Step::Ask(_) => waits,
            Step::Wait { .. } => true,
            Step::Join | Step::Busy | Step::Held(_) => false,
        };
        Ok(step)
    }

    /// Ends this attempt, to join with another one. Its place in line is kept.
    pub(super) fn renumber(&mut self) {
        let is_own = !self.take_is_waiter() || self.keeper.withdraw(&self.attempt);
        if is_own {
            self.clean();
        }
        (self.attempt.id, self.attempt.nonce) = self.keeper.next_attempt();
        (self.known, self.attempt.unanswered) = (false, false);
    }

    /// Goes on with the attempt of its line, as the first caller of the line from now on. False if
    /// it was too late, and another caller is the first.
    pub(super) fn take_over(&mut self, ask: &mut Ask) -> bool {
        let Some(release) = self.shows_life() else { return false };
        ask.release = release;
        (self.attempt.id, self.attempt.nonce) = (ask.id, ask.nonce);
        (self.known, self.attempt.unanswered) = (ask.is_known, ask.is_known);
        true
    }

    /// Whether it is this one that asks for its line.
    pub(super) fn shows_life(&self) -> Option<Option<PendingRelease>> {
        self.keeper.shows_life(&self.attempt)
    }

    /// Sends a copy of it, at `now`: the action that `ask` makes of its acquire.
    pub(super) async fn send(
        &mut self,
        ask: impl FnOnce(Acquire) -> Action,
        now: Instant,
        until: Option<Instant>,
    ) -> Result<TimedAnswer, StoreError> {
        let Attempt { name, id, nonce, mode, options, .. } = &self.attempt;
        let request = Acquire::new(*id, *mode, options.ttl)
            .with_nonce(*nonce)
            .with_not_after(self.keeper.store.not_after_us(name, now))
            .with_remember(options.remember.unwrap_or_default())
            .with_info(self.keeper.info(options.label.clone()));
        let operation = Operation::On { name: name.clone(), action: ask(request) };
        let was_known = std::mem::replace(&mut self.known, true);
        self.in_flight = true;
        let result = self.keeper.store.execute_at(operation, now, until).await;
        self.in_flight = false;
        let (is_unanswered, may_be_known) = match &result {
            Ok(timed) => {
                (false, matches!(timed.answer.reply, Reply::Granted(_) | Reply::Queued(_)))
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

    /// Leaves it to the caller whether the keeper knows it as a waiter, once.
    pub(super) fn take_is_waiter(&mut self) -> bool {
        std::mem::take(&mut self.is_waiter)
    }

    /// Takes it from the keeper, or leaves it to the next in line: then nothing of it is left to
    /// cancel. False if the keeper has decided its fate already.
    pub(super) fn take(&mut self) -> bool {
        if !self.take_is_waiter() {
            return true;
        }
        let Attempt { name, ticket, id, .. } = &self.attempt;
        match self.keeper.leave(name, *ticket, *id) {
            Left::Own { id, unanswered } => {
                if id != self.attempt.id {
                    // The attempt is now that of the caller that was the first in line before.
                    (self.attempt.id, self.attempt.unanswered) = (id, unanswered);
                    self.known = true;
                }
                true
            }
            Left::PassedOn => {
                self.known = false;
                true
            }
            Left::HadTurn => false,
        }
    }

    fn cancel(&self) -> Action {
        let unanswered = self.attempt.unanswered || self.in_flight;
        Action::Cancel { id: self.attempt.id, unanswered }
    }

    /// Leaves it to the keeper to cancel it, if the store may know it.
    fn clean(&self) {
        if self.known {
            let Attempt { name, options, .. } = &self.attempt;
            self.keeper.clean(name.clone(), self.cancel(), options.ttl);
        }
    }

    /// Ends an attempt of which the last copy was answered; whether it is certain that nothing of
    /// it is left.
    pub(super) async fn settle(&mut self, until: Instant) -> bool {
        // Where a message was faster, the lease that the keeper has made of it is dropped.
        !self.known || !self.take() || self.cancel_now(until).await.is_ok()
    }

    /// Ends an attempt that was taken from the keeper, so that no answer to it counts any more.
    /// Where this fails, dropping the attempt leaves it to the keeper.
    pub(super) async fn cancel_now(&mut self, until: Instant) -> Result<(), StoreError> {
        if self.known {
            let name = self.attempt.name.clone();
            let cancel = Operation::On { name, action: self.cancel() };
            let store = &self.keeper.store;
            store.execute_at(cancel, store.now(), Some(until)).await?;
            self.finish();
        }
        Ok(())
    }

    /// Nothing of it is left at the store, or somebody else looks after it.
    pub(super) fn finish(&mut self) {
        self.known = false;
    }
}

impl Drop for OwnAttempt {
    fn drop(&mut self) {
        // If the keeper has made a lease of it, that lease lies in the dropped channel, and
        // dropping it has let go of it.
        let undecided = self.take();
        if undecided && !bugs::is_on(Bug::DropWithoutCancel) {
            self.clean();
        }
    }
}

/// Whether the store has granted the lease and does not vouch for it: replicas did not acknowledge
/// it, or the store may have forgotten an earlier holder. The store answers the same attempt again,
/// and keeps the grant until the attempt is cancelled.
pub(super) fn is_granted_in_vain(error: &StoreError) -> bool {
    error.may_have_executed()
        && matches!(error.kind(), StoreErrorKind::NotReplicated | StoreErrorKind::Quarantined)
}
