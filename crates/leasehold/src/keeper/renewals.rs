//! The messages of the keeper to a store about held leases: renewals, many in one request; leases
//! that the store has forgotten; and the holders of leases that were passed on.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Acquire, Action, BoxFuture, Grant, LossReason, Operation, Reclaim, Reply, Result, StoreError,
    StoreErrorKind,
};

use super::lease::LeaseState;
use super::state::{Held, Keeper};
use crate::event::Event;
use crate::replies::{renewal_outcome, unexpected_reply, unusable_reply};
use crate::store::clocked::TimedAnswer;

/// The delay after which the keeper repeats the report of a holder to a store that has not
/// answered.
const TELL_AGAIN: Duration = Duration::from_secs(1);

impl Keeper {
    /// Renews leases, and takes leases back that the store has forgotten.
    pub(super) fn renew(
        self: &Arc<Self>,
        states: Vec<Arc<LeaseState>>,
        timeout: Duration,
    ) -> BoxFuture<'static, ()> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let now = keeper.store.now();
            let operation = Operation::Renew(states.iter().map(|state| state.renewal()).collect());
            let result = keeper.store.execute_at(operation, now, Some(now + timeout)).await;
            let forgotten = keeper.renewed(&states, result);
            let reclaims = forgotten.iter().map(|(state, reason)| keeper.reclaim(state, *reason));
            join_all(reclaims).await;
        })
    }

    /// Records the answers to renewals, and returns the leases that have to be taken back.
    fn renewed(
        &self,
        states: &[Arc<LeaseState>],
        result: Result<TimedAnswer, StoreError>,
    ) -> Vec<(Arc<LeaseState>, LossReason)> {
        let timed = match result {
            Ok(timed) => timed,
            Err(cause) => {
                self.renewals_failed(states, &cause);
                return Vec::new();
            }
        };
        let Reply::Many(replies) = &timed.answer.reply else {
            self.renewals_failed(states, &unexpected_reply(&timed.answer.reply));
            return Vec::new();
        };
        let (mut extended, mut forgotten) = (Vec::new(), Vec::new());
        for (state, reply) in states.iter().zip(replies) {
            match renewal_outcome(reply, state.grant_token()) {
                Some(Ok(grant)) => extended.push((&**state, grant)),
                Some(Err(reason)) => match self.holder_of(state) {
                    holder if self.may_reclaim(&holder, reason) => forgotten.push((holder, reason)),
                    _ => self.lose(state, reason),
                },
                None => self.renewals_failed([state], &unusable_reply(&state.name, reply)),
            }
        }
        self.extend(extended, &timed);
        forgotten
    }

    /// The present holder of this lease.
    fn holder_of(&self, state: &Arc<LeaseState>) -> Arc<LeaseState> {
        Arc::clone(self.table().leases.get(state.id).unwrap_or(state))
    }

    /// Extends the leases whose renewals were granted. Each extension is for the present holder:
    /// the lease may have been passed on since the renewal was sent.
    pub(super) fn extend<'a>(
        &self,
        granted: impl IntoIterator<Item = (&'a LeaseState, Grant)>,
        timed: &TimedAnswer,
    ) {
        let now = self.store.now();
        let (mut extended, mut over) = (Vec::new(), Vec::new());
        {
            let mut table = self.table();
            for (state, grant) in granted {
                let Some(holder) = table.leases.get(state.id).cloned() else { continue };
                if holder.signal.is_over(now) {
                    over.push(holder);
                    continue;
                }
                holder.renewal_succeeded(timed.answer.now.token_us);
                let valid_until = self.store.valid_until(timed, grant, holder.ttl());
                let until = table.leases.update(holder.id, now, |renewing| {
                    renewing.succeeded(now, valid_until);
                    renewing.valid_until()
                });
                extended.extend(until.map(|until| (holder, until)));
            }
        }
        // The answer came after the end of the lease. A lost lease stays lost, and is not renewed
        // any more.
        over.iter().for_each(|state| self.forget(state));
        for (state, until) in extended {
            let validity = until.saturating_since(now);
            self.observe(&Event::Renewed { lease: state.facts(), validity });
        }
    }

    /// Records that the renewals of these leases were not answered, or not with an answer that this
    /// client understands.
    pub(super) fn renewals_failed<'a>(
        &self,
        states: impl IntoIterator<Item = &'a Arc<LeaseState>>,
        cause: &StoreError,
    ) {
        let now = self.store.now();
        let states: Vec<_> = states.into_iter().collect();
        if bugs::is_on(Bug::FailedRenewalEnds) {
            states.iter().for_each(|state| self.lose(state, LossReason::Expired));
        }
        let failed: Vec<_> = {
            let mut table = self.table();
            let failed = states.into_iter().filter_map(|state| {
                let holder = Arc::clone(table.leases.get(state.id)?);
                let is_news = holder.renewal_failed(cause);
                table.leases.update(state.id, now, |renewing| renewing.failed(now))?;
                is_news.then_some(holder)
            });
            failed.collect()
        };
        for state in failed {
            let lease = state.facts();
            let validity = state.signal.valid_until().saturating_since(now);
            self.observe(&Event::Overdue { lease, validity, cause });
        }
    }

    // ---- what the store has forgotten

    /// Whether a lease that the store does not have, or no longer has, may be taken back. This is
    /// allowed only while its holder can rely on the lease and no later holder is known. Readers
    /// and permits that held the name together with this holder do not count as later holders.
    /// After the lease has ended, perhaps the store granted the name again, and has forgotten that,
    /// too.
    fn may_reclaim(&self, state: &LeaseState, reason: LossReason) -> bool {
        let is_last = match reason {
            LossReason::Expired | LossReason::Vanished => true,
            LossReason::Superseded { by } => state.was_held_beside(by),
            _ => false,
        };
        self.store.inner.capabilities().reclaims && is_last && state.signal.check().is_none()
    }

    /// Asks for a lease by its token, and records the answer.
    async fn reclaim(&self, state: &Arc<LeaseState>, reason: LossReason) -> Result<(), StoreError> {
        // If the guard is dropped from here on, its release must win even if it arrives before the
        // reclaim.
        let state = &{
            let table = self.table();
            let Some(holder) = table.leases.get(state.id) else { return Ok(()) };
            holder.expect_late_copies();
            Arc::clone(holder)
        };
        let ttl = state.ttl();
        let now = self.store.now();
        let deadline = (now + ttl / 6).min(state.signal.valid_until());
        let nonce = self.table().seed();
        let request = Acquire::new(state.id, state.mode(), ttl)
            .with_nonce(nonce)
            .with_not_after(self.store.not_after_us(&state.name, now))
            .with_info(self.info_of(state));
        let action = Action::Reclaim(Reclaim::new(state.grant_token(), request));
        let operation = Operation::On { name: state.name.clone(), action };
        let result = self.store.execute_at(operation, now, Some(deadline)).await;
        let failure = result.as_ref().err().cloned();
        self.reclaimed(state, reason, result);
        failure.map_or(Ok(()), Err)
    }

    /// Records the result of a reclaim. If no answer came, the next renewal finds out.
    fn reclaimed(
        &self,
        state: &Arc<LeaseState>,
        reason: LossReason,
        result: Result<TimedAnswer, StoreError>,
    ) {
        let timed = match result {
            Ok(timed) if timed.answer.reply != Reply::Late => timed,
            Err(error) if !error.kind().is_transient() => return self.lose(state, reason),
            Ok(_) => {
                let why = "the holder came too late to take back what the store has forgotten";
                let cause = StoreError::new(StoreErrorKind::Timeout, why);
                return self.renewals_failed([state], &cause);
            }
            Err(cause) => return self.renewals_failed([state], &cause),
        };
        match renewal_outcome(&timed.answer.reply, state.grant_token()) {
            Some(Ok(grant)) => self.extend([(&**state, grant)], &timed),
            Some(Err(found)) => self.lose(state, found),
            None => self.lose(state, reason),
        }
    }

    // ---- who has a lease that was passed on

    /// Tells the store who has a lease. If a lease is passed on inside this process, the store
    /// knows only its first holder.
    pub(super) fn tell(self: &Arc<Self>, state: Arc<LeaseState>) -> BoxFuture<'static, ()> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let action = Action::Describe { id: state.id, info: keeper.info_of(&state) };
            let result = keeper.store.apply(&state.name, action).await;
            keeper.told(&state, result);
        })
    }

    /// Records whether the store now knows the holder. If the store does not have the lease, or no
    /// longer has it, the renewal finds that out.
    fn told(&self, state: &LeaseState, result: Result<TimedAnswer, StoreError>) {
        if result.is_err_and(|error| error.kind().is_transient()) {
            let mut table = self.table();
            if let Some(due) = table.leases.tell_at(state, self.store.now() + TELL_AGAIN) {
                self.wake_by(&mut table, due);
            }
        }
    }
}

impl Held {
    /// Records the answers to the renewals of all these leases, perhaps for another ttl. A lost
    /// lease does not end the loop.
    pub(crate) async fn renewed(
        held: &[Self],
        another: Option<Duration>,
        timed: &TimedAnswer,
        replies: &[Reply],
    ) -> Result<()> {
        let Some(Self { keeper, .. }) = held.first() else { return Ok(()) };
        let (mut granted, mut others) = (Vec::new(), Vec::new());
        for (held, reply) in held.iter().zip(replies) {
            match renewal_outcome(reply, held.state.grant_token()) {
                Some(Ok(grant)) => granted.push((&*held.state, grant)),
                Some(Err(reason)) => others.push(Either::Left(held.not_held(reason, another))),
                None => {
                    let error = unusable_reply(&held.state.name, reply).into();
                    others.push(Either::Right(ready(Err(error))));
                }
            }
        }
        if let Some(ttl) = another {
            keeper.change_ttl(granted.iter().map(|(state, _)| *state), ttl);
        }
        keeper.extend(granted, timed);
        join_all(others).await.into_iter().collect()
    }

    /// Handles a lease that the store does not have, or no longer has, as a renewal found. The
    /// lease is taken back if that is allowed, perhaps for another ttl.
    async fn not_held(&self, reason: LossReason, another: Option<Duration>) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        if !keeper.may_reclaim(state, reason) {
            keeper.lose(state, reason);
            return Err(state.lost(reason));
        }
        let reclaimed = keeper.reclaim(state, reason).await;
        self.ensure_held()?;
        reclaimed?;
        if let Some(ttl) = another {
            keeper.change_ttl([&**state], ttl);
        }
        Ok(())
    }
}
