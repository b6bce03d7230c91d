//! One attempt of a call: an acquire that may be sent several times, and its cancel.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Acquire, Action, FencingToken, HolderId, Instant, LockName, Operation, Reply, Result,
    StoreError, StoreErrorKind,
};
use tokio::sync::oneshot;

use super::{Call, Limit};
use crate::keeper::{self, Ask, Held, Keeper, Left, PendingRelease, Polling, Ticket, Turn, Waiter};
use crate::store::clocked::TimedAnswer;

/// The attempt of a call that has been sent or is about to be, one after the other, and its place
/// in line. Dropping it before it has ended leaves both to the next in line, or has the keeper
/// cancel it, so that a dropped future leaves nothing behind.
pub(super) struct Attempt {
    keeper: Arc<Keeper>,
    name: LockName,
    ttl: Duration,
    pub(super) id: HolderId,
    nonce: u64,
    /// Its place in line, if it has one.
    pub(super) ticket: Option<Ticket>,
    /// The keeper knows it as a waiter, or in line.
    is_waiter: bool,
    /// The store may know it, so it must be cancelled unless somebody else looks after it.
    known: bool,
    /// Some copy was never answered.
    pub(super) unanswered: bool,
    /// A copy is on its way.
    in_flight: bool,
}

/// How an attempt begins.
pub(super) enum Begun {
    /// It asks the store, after the release or together with it.
    Asks(oneshot::Receiver<Turn>, Option<PendingRelease>),
    /// It stands behind so many callers of its own client, which may have a lease.
    Behind {
        turn: oneshot::Receiver<Turn>,
        ahead: u32,
        own: Option<FencingToken>,
    },
    Busy,
    Held(Held),
}

impl Attempt {
    /// An attempt that nobody knows yet.
    pub(super) fn new(call: &Call<'_>) -> Self {
        let (id, nonce) = call.engine.next_attempt();
        Self {
            keeper: Arc::clone(call.keeper),
            name: call.request.name.clone(),
            ttl: call.request.options.ttl,
            id,
            nonce,
            ticket: None,
            is_waiter: false,
            known: false,
            unanswered: false,
            in_flight: false,
        }
    }

    /// Begins. One that may wait is made known to the keeper before it is sent, because its grant
    /// may arrive before the answer that it was queued.
    pub(super) fn begin(&mut self, call: &Call<'_>, now: Instant) -> Result<Begun> {
        let (sender, turn) = oneshot::channel();
        let request = call.request;
        let waits = call.limit != Limit::Try;
        let waiter = Waiter {
            name: request.name.clone(),
            id: self.id,
            nonce: self.nonce,
            mode: request.mode,
            options: request.options.clone(),
            turn: sender,
            pulse: request.pulse.clone(),
            unanswered: true,
            polling: Polling::default(),
            joins: request.joins,
            ticket: self.ticket,
        };
        Ok(match call.keeper.begin(waiter, waits, now)? {
            keeper::Begun::Asks { ticket, release } => {
                (self.ticket, self.is_waiter) = (ticket, waits);
                Begun::Asks(turn, release)
            }
            keeper::Begun::Behind { ticket, ahead, own } => {
                (self.ticket, self.is_waiter) = (Some(ticket), true);
                Begun::Behind { turn, ahead, own }
            }
            keeper::Begun::Busy => Begun::Busy,
            keeper::Begun::TakenOver(held) => Begun::Held(held),
        })
    }

    /// Ends this attempt, to begin with another one. Its place in line is kept.
    pub(super) fn renumber(&mut self, call: &Call<'_>) {
        let is_own =
            !self.take_is_waiter() || self.keeper.withdraw(&self.name, self.ticket, self.id);
        if is_own && self.known {
            self.keeper.clean(self.name.clone(), self.cancel(), self.ttl);
        }
        (self.id, self.nonce) = call.engine.next_attempt();
        (self.known, self.unanswered) = (false, false);
    }

    /// Goes on with the attempt of its line, of which it is the first from now on; `None` if it was
    /// too late for that and somebody else is.
    pub(super) fn take_over(&mut self, ask: &Ask) -> Option<Option<PendingRelease>> {
        let release = self.shows_life()?;
        (self.id, self.nonce) = (ask.id, ask.nonce);
        (self.known, self.unanswered) = (ask.is_known, ask.is_known);
        Some(release)
    }

    /// Whether it is this one that asks for its line.
    pub(super) fn shows_life(&self) -> Option<Option<PendingRelease>> {
        self.keeper.shows_life(&self.name, self.ticket)
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
            .with_remember(call.request.options.remember.unwrap_or_default())
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

    /// Takes it from the keeper, or leaves it to the next in line: then nothing of it is left to
    /// cancel. False if the keeper has decided its fate already.
    pub(super) fn take(&mut self) -> bool {
        if !self.take_is_waiter() {
            return true;
        }
        match self.keeper.leave(&self.name, self.ticket, self.id) {
            Left::Own(waiter) => {
                if waiter.id != self.id {
                    // That of whoever was the first in line before.
                    (self.id, self.known) = (waiter.id, true);
                    self.unanswered = waiter.unanswered;
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
        if self.known {
            let cancel = Operation::On { name: self.name.clone(), action: self.cancel() };
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

impl Drop for Attempt {
    fn drop(&mut self) {
        // If the keeper has made a lease of it, that lease lies in the dropped channel, and
        // dropping it has let go of it.
        let undecided = self.take();
        if undecided && self.known && !bugs::is_on(Bug::DropWithoutCancel) {
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
