//! The attempt of a call: an acquire that may be sent several times, and its cancel.

use std::sync::Arc;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Acquire, Action, Instant, Operation, Reply, Result, StoreError, StoreErrorKind,
};

use super::request::Asked;
use crate::keeper::{Ask, Attempt, Keeper, Left, PendingRelease, Step};
use crate::store::clocked::TimedAnswer;

/// The present attempt of a call, sent or about to be sent, and its place in line. If it is dropped
/// before it has ended, the next in line gets both, or the keeper cancels the attempt. So a dropped
/// future leaves nothing behind.
pub(super) struct OwnAttempt {
    keeper: Arc<Keeper>,
    pub(super) attempt: Attempt,
    /// The keeper knows it as a waiter, or in line.
    is_waiter: bool,
    /// The store may know it, so it must be cancelled unless somebody else looks after it.
    known: bool,
    /// A copy is on its way.
    in_flight: bool,
}

impl OwnAttempt {
    /// An attempt that nobody knows yet.
    pub(super) fn new(asked: &Asked<'_>) -> Self {
        let (keeper, attempt) = (Arc::clone(asked.keeper), asked.attempt());
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
    pub(super) fn renumber(&mut self, asked: &Asked<'_>) {
        let is_own = !self.take_is_waiter() || self.keeper.withdraw(&self.attempt);
        if is_own {
            self.clean();
        }
        (self.attempt.id, self.attempt.nonce) = asked.engine.next_attempt();
        (self.known, self.attempt.unanswered) = (false, false);
    }

    /// Goes on with the attempt of its line, of which it is the first from now on; false if it was
    /// too late for that and somebody else is.
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

    /// Sends a copy of it, at `now`.
    pub(super) async fn send(
        &mut self,
        asked: &Asked<'_>,
        now: Instant,
    ) -> Result<TimedAnswer, StoreError> {
        let Attempt { name, id, nonce, mode, options, .. } = &self.attempt;
        let request = Acquire::new(*id, *mode, options.ttl)
            .with_wait(asked.waits())
            .with_nonce(*nonce)
            .with_not_after(self.keeper.store.not_after_us(name, now))
            .with_remember(options.remember.unwrap_or_default())
            .with_info(self.keeper.info(options.label.clone()));
        let operation = Operation::On { name: name.clone(), action: Action::Acquire(request) };
        let was_known = std::mem::replace(&mut self.known, true);
        self.in_flight = true;
        let result = asked.ask(operation, now).await;
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
            self.keeper.store.execute_until(cancel, until).await?;
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

/// Whether the store has granted it and does not vouch for it: replicas that must have it did not
/// say so, or it may have forgotten an earlier holder. It answers the same attempt again, and keeps
/// what it granted until the attempt is cancelled.
pub(super) fn is_granted_in_vain(error: &StoreError) -> bool {
    error.may_have_executed()
        && matches!(error.kind(), StoreErrorKind::NotReplicated | StoreErrorKind::Quarantined)
}
