//! The request of a call, and the attempts of the call. An attempt is an acquire, which may be sent
//! several times, and the cancel of that acquire.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Action, BoxFuture, End, Instant, LeaseOptions, LockName, Mode, Operation, Reply, Request,
    Result, StoreError, StoreErrorKind, Take,
};

use crate::keeper::{Ask, Attempt, Keeper, Left, PendingRelease, Poller, Pulse, Step};
use crate::store::clocked::TimedAnswer;

/// If no answer comes, a try asks again for 2 s: enough for four requests with the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// The time beyond its limit that a call may take to leave the queue properly: enough for one
/// request.
pub(super) const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

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
    pub(crate) options: &'a LeaseOptions,
    /// The pulse of the call, if it gathers several names and delivers them together.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// Whether this caller stands in its client's line: callers there pass the lease on to each
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

    /// The latest time for the answer to a last request: a cancel, or an inspection of the holders.
    pub(super) fn leave_until(&self) -> Instant {
        self.keeper.store.now() + LEAVE_PATIENCE
    }

    /// If the store has no queue, gives other clients a chance. A client that asks right after its
    /// release would always be the first.
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

/// The present attempt of a call, sent or about to be sent, and its place in line. If this value is
/// dropped before the attempt has ended, the next in line gets both, or the keeper cancels the
/// attempt. So a dropped future leaves nothing behind.
pub(super) struct OwnAttempt {
    keeper: Arc<Keeper>,
    pub(super) attempt: Attempt,
    /// The attempt is registered at the keeper: it asks, waits or stands in line.
    is_waiter: bool,
    /// The store may have the attempt, so it must be cancelled unless somebody else looks after it.
    pub(super) known: bool,
    /// A request of the attempt is on its way.
    in_flight: bool,
}

impl OwnAttempt {
    /// An attempt that neither the keeper nor the store has yet.
    pub(super) fn new(asked: &Asked<'_>) -> Self {
        let info = asked.keeper.info(asked.options.label.clone());
        let attempt = Attempt {
            name: asked.name.clone(),
            request: Request::new(asked.keeper.next_attempt(), asked.mode, info),
            options: asked.options.clone(),
            pulse: asked.pulse.clone(),
            joins: asked.joins,
            ticket: None,
            unanswered: false,
            is_taken_over: false,
        };
        let keeper = Arc::clone(asked.keeper);
        Self { keeper, attempt, is_waiter: false, known: false, in_flight: false }
    }

    /// Joins the queue of its name. An attempt is registered at the keeper before it is sent: its
    /// grant may arrive before the answer that it was queued, and its client may be closed before
    /// any answer.
    pub(super) fn join(&mut self, waits: bool, now: Instant) -> Result<Step> {
        let step = self.keeper.join(&mut self.attempt, waits, now)?;
        self.is_waiter = matches!(&step, Step::Ask(_) | Step::Wait { .. });
        Ok(step)
    }

    /// Ends this attempt, so that the call joins with a new one. The call keeps its place in line.
    pub(super) fn renumber(&mut self) {
        let is_own = !self.take_is_waiter() || self.keeper.withdraw(&self.attempt);
        if is_own {
            self.clean();
        }
        self.attempt.request.id = self.keeper.next_attempt();
        self.attempt.request.info = self.keeper.info(self.attempt.options.label.clone());
        (self.known, self.attempt.unanswered) = (false, false);
    }

    /// Continues with the attempt of its line, as the first caller of the line from now on. Returns
    /// false if this call was too late, and another caller is the first.
    pub(super) fn take_over(&mut self, ask: &mut Ask) -> bool {
        let Some(release) = self.shows_life() else { return false };
        ask.release = release;
        self.attempt.request = ask.request.clone();
        (self.known, self.attempt.unanswered) = (ask.is_known, ask.is_known);
        true
    }

    /// Records a sign of life. `None` if this call no longer asks the store on behalf of its line;
    /// otherwise the release of the line's last lease, if nobody has sent it yet.
    pub(super) fn shows_life(&self) -> Option<Option<PendingRelease>> {
        self.keeper.shows_life(&self.attempt)
    }

    /// Sends a request of the attempt, at `now`. `ask` says how the attempt takes the name.
    pub(super) async fn send(
        &mut self,
        ask: impl FnOnce(Take) -> Take,
        now: Instant,
        until: Option<Instant>,
    ) -> Result<TimedAnswer, StoreError> {
        let Attempt { name, request, options, .. } = &self.attempt;
        let action = Action::Take(ask(Take::new(request.clone(), options.ttl)));
        let operation = Operation::On { name: name.clone(), action };
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

    /// Clears the flag that the attempt is registered at the keeper, and returns its previous
    /// value. So only the first call returns true.
    pub(super) fn take_is_waiter(&mut self) -> bool {
        std::mem::take(&mut self.is_waiter)
    }

    /// Takes the attempt from the keeper, or leaves it to the next in line: then nothing is left to
    /// cancel. Returns false if the attempt has already had its turn.
    pub(super) fn take(&mut self) -> bool {
        if !self.take_is_waiter() {
            return true;
        }
        let Attempt { name, ticket, request, .. } = &self.attempt;
        match self.keeper.leave(name, *ticket, request.id) {
            Left::Own { request, unanswered } => {
                if request.id != self.attempt.request.id {
                    // This call has taken over the attempt of the former first caller of the line.
                    (self.attempt.request, self.attempt.unanswered) = (request, unanswered);
                    self.known = true;
                }
                true
            }
            Left::PassedOn => {
                self.known = false;
                true
            }
            Left::HadTurn => {
                // The keeper has made a lease of the attempt, which may be the next caller's soon.
                self.known = false;
                false
            }
        }
    }

    fn cancel(&self) -> Action {
        let unanswered = self.attempt.unanswered || self.in_flight;
        Action::End(End::new(self.attempt.request.clone()).with_closes(unanswered))
    }

    /// Makes the keeper cancel the attempt, if the store may have it.
    fn clean(&self) {
        if self.known {
            let Attempt { name, options, .. } = &self.attempt;
            self.keeper.clean(name.clone(), self.cancel(), options.ttl);
        }
    }

    /// Ends an attempt whose last request was answered. Returns true if the store certainly has
    /// nothing of it left.
    pub(super) async fn settle(&mut self, until: Instant) -> bool {
        // If a message was faster, the lease that the keeper has made of the grant is dropped.
        !self.known || !self.take() || self.cancel_now(until).await.is_ok()
    }

    /// Ends an attempt that was taken from the keeper, so that no answer to it counts any more. If
    /// this fails, the drop of the attempt leaves the cancel to the keeper.
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

    /// Records that the keeper has sent the caller a lease: neither the keeper nor the store has
    /// anything left of the attempt.
    pub(super) fn had_turn(&mut self) {
        self.is_waiter = false;
        self.finish();
    }

    /// Marks the attempt as ended: the store has nothing left of it, or somebody else looks after
    /// it.
    pub(super) fn finish(&mut self) {
        self.known = false;
    }
}

impl Drop for OwnAttempt {
    fn drop(&mut self) {
        // If the keeper has made a lease of the attempt, the lease was in the channel that has been
        // dropped, and so it was released.
        let undecided = self.take();
        if undecided && !bugs::is_on(Bug::DropWithoutCancel) {
            self.clean();
        }
    }
}

/// Whether the store has granted the lease but does not vouch for the grant: replicas did not
/// acknowledge it, or the store may have forgotten an earlier holder. The store answers the same
/// attempt again, and keeps the grant until the attempt is cancelled.
pub(super) fn is_granted_in_vain(error: &StoreError) -> bool {
    error.may_have_executed()
        && matches!(error.kind(), StoreErrorKind::NotReplicated | StoreErrorKind::Quarantined)
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Bounds, FakeClock, HolderInfo};

    use super::*;
    use crate::event::Observers;
    use crate::store::Memory;
    use crate::store::clocked::ClockedStore;

    #[tokio::test]
    async fn an_attempt_of_which_the_keeper_has_made_a_lease_is_not_cancelled() {
        let clock = FakeClock::new();
        let memory = Box::new(Memory::with_clock(clock.clone()));
        let observers = Observers::default();
        let store = ClockedStore::new(memory, Arc::new(clock), Bounds::default(), observers);
        let (who, options) = (HolderInfo::default(), LeaseOptions::default());
        let keeper = Arc::new(Keeper::new(store, [1, 1], who, options.clone(), Duration::ZERO));
        let (name, now) = (LockName::new("a").unwrap(), keeper.store.now());
        let asked = Asked {
            keeper: &keeper,
            name: &name,
            mode: Mode::Exclusive,
            options: &options,
            pulse: None,
            joins: false,
            limit: Limit::Forever,
            started: now,
            call: 0,
        };
        let mut own = OwnAttempt::new(&asked);
        let _asking = own.join(true, now).unwrap();
        let timed = own.send(|take| take, now, None).await.unwrap();
        let Reply::Granted(grant) = timed.answer.reply else { panic!("{timed:?}") };
        let until = keeper.store.valid_until(&timed, options.ttl);
        let _held = keeper.grant(&own.attempt, grant, until, now).unwrap();
        assert!(own.known && !own.take());
        assert!(!own.known, "the drop would cancel the lease");
    }
}
