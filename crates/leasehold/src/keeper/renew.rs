//! Renew: what the keeper tells a store about held leases. Renewals, many in one request; leases
//! that the store has forgotten; and who holds.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Action, Answer, BoxFuture, Description, LossReason, Operation, Reply, Result, StoreError, Take,
};

use super::Keeper;
use super::lease::{Held, LeaseState};
use crate::clock::within;
use crate::event::Event;
use crate::replies::{outcome, unexpected_reply, unusable_reply};
use crate::store::clocked::TimedAnswer;

/// How long the report of a holder waits for the inbox: 100 ms. If that takes longer, a renewal
/// finds out whether a message was missed.
const INBOX_PATIENCE: Duration = Duration::from_millis(100);

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
            let ttls: Vec<_> = states.iter().map(|state| state.ttl()).collect();
            let keeps = states.iter().zip(&ttls);
            let keeps = keeps.map(|(state, ttl)| (state.name.clone(), state.keep(*ttl)));
            let operation = Operation::Keep(keeps.collect());
            let result = keeper.store.execute_at(operation, now, Some(now + timeout)).await;
            let forgotten = keeper.renewed(&states, &ttls, result);
            let reclaims = forgotten.iter().map(|(state, reason)| keeper.reclaim(state, *reason));
            join_all(reclaims).await;
        })
    }

    /// Records the answers to renewals, and returns the leases that have to be taken back.
    fn renewed(
        self: &Arc<Self>,
        states: &[Arc<LeaseState>],
        ttls: &[Duration],
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
        for ((state, ttl), reply) in states.iter().zip(ttls).zip(replies) {
            match outcome(reply) {
                Some(Ok(())) => extended.push((&**state, *ttl)),
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
        Arc::clone(self.table().leases.get(state.id()).unwrap_or(state))
    }

    /// Extends the leases whose renewals were granted, each by the ttl that was sent: the ttl may
    /// have been changed since. Each extension is for the present holder: the lease may have been
    /// passed on since.
    pub(super) fn extend<'a>(
        self: &Arc<Self>,
        renewed: impl IntoIterator<Item = (&'a LeaseState, Duration)>,
        timed: &TimedAnswer,
    ) {
        let now = self.store.now();
        let (mut extended, mut over) = (Vec::new(), Vec::new());
        {
            let mut table = self.table();
            for (state, ttl) in renewed {
                let Some(holder) = table.leases.get(state.id()).cloned() else { continue };
                if holder.signal.is_over(now) {
                    over.push(holder);
                    continue;
                }
                holder.changing().failures.end();
                holder.signal.extend(now, self.store.valid_until(timed, ttl));
                let left = holder.signal.renewed_until().saturating_since(now);
                table.leases.update(holder.id(), |renewing| renewing.succeeded(now, left));
                extended.push(holder);
            }
        }
        // The answer came after the end of the lease. A lost lease stays lost, and is not renewed
        // any more.
        over.iter().for_each(|state| self.forget(state));
        for state in extended {
            let validity = state.signal.valid_until().saturating_since(now);
            self.observe(&Event::Renewed { lease: state.facts(), validity });
        }
    }

    /// Records that the renewals of these leases were not answered, or not with an answer that this
    /// client understands.
    pub(super) fn renewals_failed<'a>(
        self: &Arc<Self>,
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
                let holder = Arc::clone(table.leases.get(state.id())?);
                let is_news = holder.changing().failures.record(cause);
                table.leases.update(state.id(), |renewing| renewing.failed(now))?;
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
    /// allowed only while its holder can rely on the lease. After the lease has ended, perhaps the
    /// store granted the name again, and has forgotten that, too.
    fn may_reclaim(&self, state: &LeaseState, reason: LossReason) -> bool {
        let is_unknown = matches!(reason, LossReason::Expired | LossReason::Vanished);
        self.store.inner.capabilities().reclaims && is_unknown && state.signal.check().is_none()
    }

    /// Asks for a lease by its token, and records the answer.
    async fn reclaim(
        self: &Arc<Self>,
        state: &Arc<LeaseState>,
        reason: LossReason,
    ) -> Result<(), StoreError> {
        // If the guard is dropped from here on, its release must win even if it arrives before the
        // reclaim.
        let state = &{
            let table = self.table();
            let Some(holder) = table.leases.get(state.id()) else { return Ok(()) };
            holder.changing().unanswered = true;
            Arc::clone(holder)
        };
        let ttl = state.ttl();
        let now = self.store.now();
        let deadline = (now + ttl / 6).min(state.signal.valid_until());
        let take = Take::new(state.request.clone(), ttl).with_claim(Some(state.grant_token));
        let operation = Operation::On { name: state.name.clone(), action: Action::Take(take) };
        let timed = match self.store.execute_at(operation, now, Some(deadline)).await {
            Ok(timed) => timed,
            Err(error) => {
                match error.kind().is_transient() {
                    // The next renewal finds out.
                    true => self.renewals_failed([state], &error),
                    false => self.lose(state, reason),
                }
                return Err(error);
            }
        };
        match outcome(&timed.answer.reply) {
            Some(Ok(())) => self.extend([(&**state, ttl)], &timed),
            Some(Err(found)) => self.lose(state, found),
            None => self.lose(state, reason),
        }
        Ok(())
    }

    // ---- who has a lease

    /// Tells the store who has these leases, all in one request. If a lease is passed on inside
    /// this process, the store knows only its first holder, and of a quick grant it knows nothing.
    /// An operator may revoke a lease once the store knows its holder, so the client listens first.
    pub(super) fn tell(self: &Arc<Self>, states: Vec<Arc<LeaseState>>) -> BoxFuture<'static, ()> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let patience = keeper.store.now() + INBOX_PATIENCE;
            within(&*keeper.store.clock, patience, pin!(keeper.listens.wait())).await;
            let told = states.into_iter().map(|state| {
                let label = state.changing().shown_label.clone();
                let description = state.description(keeper.info(label));
                (state, description)
            });
            let told: Vec<_> = told.collect();
            // A time of zero leaves the deadline as it is: the renewals move it.
            let keeps = told.iter().map(|(state, description)| {
                let said = Some(Box::new(description.clone()));
                (state.name.clone(), state.keep(Duration::ZERO).with_description(said))
            });
            let result = keeper.store.execute(Operation::Keep(keeps.collect())).await;
            keeper.told(told, result);
        })
    }

    /// Records whether the store now knows the holders. If the store does not have a lease, or no
    /// longer has it, a renewal at once finds that out.
    fn told(
        &self,
        told: Vec<(Arc<LeaseState>, Description)>,
        result: Result<TimedAnswer, StoreError>,
    ) {
        let now = self.store.now();
        match result {
            Ok(TimedAnswer { answer: Answer { reply: Reply::Many(replies), .. }, .. }) => {
                for ((state, description), reply) in told.into_iter().zip(replies) {
                    // The label may have changed meanwhile, and the store knows the old one last.
                    if description.info.label != state.changing().shown_label {
                        self.table().leases.tell_at(&state, now);
                    }
                    match reply {
                        Reply::Kept { .. } => state.changing().known = Some(description),
                        _ => drop(
                            self.table()
                                .leases
                                .update(state.id(), |renewing| renewing.renew_by(now)),
                        ),
                    }
                }
            }
            Err(error) if error.kind().is_transient() => {
                let mut table = self.table();
                told.iter().for_each(|(state, _)| table.leases.tell_at(state, now + TELL_AGAIN));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

impl Held {
    /// Records the answers to the renewals of all these leases for these spans, perhaps for another
    /// ttl. A lost lease does not end the loop.
    pub(crate) async fn renewed(
        keeper: &Arc<Keeper>,
        held: Vec<(&Self, Duration)>,
        another: Option<Duration>,
        timed: &TimedAnswer,
        replies: &[Reply],
    ) -> Result<()> {
        let (mut renewed, mut others) = (Vec::new(), Vec::new());
        for ((held, ttl), reply) in held.into_iter().zip(replies) {
            match outcome(reply) {
                Some(Ok(())) => renewed.push((&*held.state, ttl)),
                Some(Err(reason)) => others.push(Either::Left(held.not_held(reason, another))),
                None => {
                    let error = unusable_reply(&held.state.name, reply).into();
                    others.push(Either::Right(ready(Err(error))));
                }
            }
        }
        if let Some(ttl) = another {
            keeper.change_ttl(renewed.iter().map(|(state, _)| *state), ttl);
        }
        keeper.extend(renewed, timed);
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
