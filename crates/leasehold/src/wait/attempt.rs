//! One attempt of a call: an acquire that may be sent several times, and its cancel.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Acquire, Action, HolderId, Instant, LockName, Operation, Reply, Result, StoreError,
    StoreErrorKind,
};
use tokio::sync::oneshot;

use super::{Call, Limit};
use crate::keeper::{Keeper, Polling, Turn, Waiter};
use crate::store::clocked::TimedAnswer;

/// An attempt that has been sent or is about to be. Dropping it before it has ended has the keeper
/// cancel it, so that a dropped future leaves nothing behind.
pub(super) struct Attempt {
    keeper: Arc<Keeper>,
    name: LockName,
    ttl: Duration,
    pub(super) id: HolderId,
    nonce: u64,
    /// The keeper knows it as a waiter.
    is_waiter: bool,
    /// The store may know it, so it must be cancelled unless somebody else looks after it.
    known: bool,
    /// Some copy was never answered.
    pub(super) unanswered: bool,
    /// A copy is on its way.
    in_flight: bool,
}

impl Attempt {
    /// Makes an attempt. One that may wait is made known to the keeper before it is sent, because
    /// its grant may arrive before the answer that it was queued.
    pub(super) fn begin(call: &Call<'_>) -> Result<(Self, oneshot::Receiver<Turn>)> {
        let (id, nonce) = call.engine.next_attempt();
        let (sender, turn) = oneshot::channel();
        let request = call.request;
        let waiter = (call.limit != Limit::Try).then(|| Waiter {
            name: request.name.clone(),
            id,
            nonce,
            mode: request.mode,
            options: request.options.clone(),
            turn: sender,
            pulse: request.pulse.clone(),
            unanswered: true,
            polling: Polling::default(),
        });
        let is_waiter = waiter.is_some();
        call.keeper.begin(waiter)?;
        let attempt = Self {
            keeper: Arc::clone(call.keeper),
            name: request.name.clone(),
            ttl: request.options.ttl,
            id,
            nonce,
            is_waiter,
            known: false,
            unanswered: false,
            in_flight: false,
        };
        Ok((attempt, turn))
    }

    /// Sends a copy of it, at `now`.
    pub(super) async fn send(
        &mut self,
        call: &Call<'_>,
        now: Instant,
    ) -> Result<TimedAnswer, StoreError> {
        let request = Acquire::new(self.id, call.request.mode, call.request.options.ttl)
            .with_wait(call.limit != Limit::Try)
            .with_nonce(self.nonce)
            .with_not_after(self.keeper.store.not_after_us(&self.name, now))
            .with_info(call.engine.info(call.request.options.label.clone()));
        let was_known = std::mem::replace(&mut self.known, true);
        self.in_flight = true;
        let operation = Operation::On { name: self.name.clone(), action: Action::Acquire(request) };
        let result = call.ask(operation, now).await;
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
        self.unanswered |= is_unanswered;
        self.known = self.unanswered || may_be_known;
        result
    }

    /// Leaves it to the caller whether the keeper knows it as a waiter, once.
    pub(super) fn take_is_waiter(&mut self) -> bool {
        std::mem::take(&mut self.is_waiter)
    }

    /// Takes it from the keeper; false if the keeper has decided its fate already.
    pub(super) fn take(&mut self) -> bool {
        !self.take_is_waiter() || self.keeper.take_waiter(self.id).is_some()
    }

    pub(super) fn cancel(&self) -> Action {
        Action::Cancel { id: self.id, unanswered: self.unanswered || self.in_flight }
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
        let cancel = Operation::On { name: self.name.clone(), action: self.cancel() };
        self.keeper.store.execute_until(cancel, until).await?;
        self.finish();
        Ok(())
    }

    /// Nothing of it is left at the store, or somebody else looks after it.
    pub(super) fn finish(&mut self) {
        self.known = false;
    }

    /// The store does not know it, but a late copy may still arrive.
    pub(super) fn is_gone(&mut self) {
        self.known = self.unanswered;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // If the keeper has made a lease of it, that lease lies in the dropped channel, and
        // dropping it has released it.
        let undecided = self.take();
        if undecided && self.known {
            self.keeper.clean(self.name.clone(), self.cancel(), self.ttl);
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
