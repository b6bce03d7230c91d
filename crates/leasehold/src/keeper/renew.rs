//! Renew: what the keeper tells a store about held leases. Renewals, many in one request; leases
//! that the store has forgotten; and who holds.

use std::pin::pin;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Action, Answer, BoxFuture, Description, LossReason, Operation, Reply, Result, StoreError, Take,
};

use super::Keeper;
use super::lease::LeaseState;
use crate::clock::within;
use crate::event::Event;
use crate::replies::{outcome, unusable_reply};
use crate::store::clocked::{Timed, TimedAnswer};

/// How long the report of a holder waits for the inbox: 100 ms. If that takes longer, a renewal
/// finds out whether a message was missed.
const INBOX_PATIENCE: Duration = Duration::from_millis(100);

/// The delay after which the keeper repeats the report of a holder to a store that has not
/// answered.
const TELL_AGAIN: Duration = Duration::from_secs(1);

impl Keeper {
    /// Renews leases that are due.
    pub(super) fn renew(
        self: &Arc<Self>,
        states: Vec<Arc<LeaseState>>,
        timeout: Duration,
    ) -> BoxFuture<'static, ()> {
        let keeper = Arc::clone(self);
        // What fails is recorded.
        Box::pin(async move { drop(keeper.keep(&states, None, Some(timeout)).await) })
    }

    /// Renews leases, perhaps for another ttl from now on, and takes back those that the store has
    /// forgotten. The keeper gives a `timeout`, and failures are recorded. A holder that renews is
    /// told of a failure; a lease may be lost then.
    pub(crate) async fn keep(
        self: &Arc<Self>,
        states: &[Arc<LeaseState>],
        another: Option<Duration>,
        timeout: Option<Duration>,
    ) -> Result<(), StoreError> {
        let failed = |states: &[Arc<LeaseState>], cause: &StoreError| {
            if timeout.is_some() {
                self.renewals_failed(states, cause);
            }
        };
        let now = self.store.now();
        let ttl = |state: &Arc<LeaseState>| another.unwrap_or_else(|| state.ttl());
        let ttls: Vec<_> = states.iter().map(ttl).collect();
        let keeps = states.iter().zip(&ttls);
        let keeps = keeps.map(|(state, ttl)| (state.name.clone(), state.keep(*ttl)));
        let operation = Operation::Keep(keeps.collect());
        let until = timeout.map(|timeout| now + timeout);
        let timed = self.store.execute_at(operation, now, until).await;
        let timed = timed.inspect_err(|cause| failed(states, cause))?;
        let reply = &timed.answer.reply;
        let replies = if let Reply::Many(replies) = reply { &replies[..] } else { &[] };
        let (mut renewed, mut forgotten, mut failure) = (Vec::new(), Vec::new(), None);
        for (nth, (state, ttl)) in states.iter().zip(ttls).enumerate() {
            match replies.get(nth).and_then(outcome) {
                Some(Ok(())) => renewed.push((&**state, ttl)),
                Some(Err(reason)) => match self.holder_of(state) {
                    holder if self.may_reclaim(&holder, reason) => forgotten.push((holder, reason)),
                    _ => self.lose(state, reason),
                },
                None => {
                    let cause = unusable_reply(&state.name, replies.get(nth).unwrap_or(reply));
                    failed(slice::from_ref(state), &cause);
                    failure.get_or_insert(cause);
                }
            }
        }
        if let Some(ttl) = another {
            self.change_ttl(renewed.iter().map(|(state, _)| *state), ttl);
        }
        self.extend(renewed, &timed);
        let reclaims = forgotten.iter().map(|(state, why)| self.reclaim(state, *why, another));
        let reclaimed: Result<(), _> = join_all(reclaims).await.into_iter().collect();
        reclaimed.and(failure.map_or(Ok(()), Err))
    }

    /// The present holder of this lease.
    fn holder_of(&self, state: &Arc<LeaseState>) -> Arc<LeaseState> {
        Arc::clone(self.table().leases.get(state.id()).unwrap_or(state))
    }

    /// Extends the leases whose renewals were granted, each by the ttl that was sent: the ttl may
    /// have been changed since. Each extension is for the present holder: the lease may have been
    /// passed on since.
    fn extend<'a>(
        self: &Arc<Self>,
        renewed: impl IntoIterator<Item = (&'a LeaseState, Duration)>,
        timed: &TimedAnswer,
    ) {
        let now = self.store.now();
        let mut extended = Vec::new();
        {
            let mut table = self.table();
            for (state, ttl) in renewed {
                let Some(holder) = table.leases.get(state.id()).cloned() else { continue };
                // If the answer came after the end of the lease, the lease stays lost.
                if holder.signal.is_over(now) {
                    continue;
                }
                holder.changing().failures.end();
                holder.signal.extend(now, self.store.valid_until(timed, ttl));
                let left = holder.signal.renewed_until().saturating_since(now);
                table.leases.update(holder.id(), |renewing| renewing.succeeded(now, left));
                extended.push(holder);
            }
        }
        for state in extended {
            let validity = state.signal.valid_until().saturating_since(now);
            self.observe(&Event::Renewed { lease: state.facts(), validity });
        }
    }

    /// Records that the renewals of these leases were not answered, or not with an answer that this
    /// client understands.
    fn renewals_failed<'a>(
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

    /// Asks for a lease by its token, and records the answer. If it is granted, it is renewed
    /// perhaps for another ttl from now on.
    async fn reclaim(
        self: &Arc<Self>,
        state: &Arc<LeaseState>,
        reason: LossReason,
        another: Option<Duration>,
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
            Some(Ok(())) => {
                self.extend([(&**state, ttl)], &timed);
                if let Some(ttl) = another {
                    self.change_ttl([&**state], ttl);
                }
            }
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
            let keeps = told.iter();
            let keeps = keeps.map(|(state, told)| (state.name.clone(), state.describe(told)));
            let result = keeper.store.execute(Operation::Keep(keeps.collect())).await;
            keeper.told(told, result);
        })
    }

    /// Records whether the store now knows the holders. If the store does not have a lease, or no
    /// longer has it, a renewal at once finds that out.
    fn told(&self, told: Vec<(Arc<LeaseState>, Description)>, result: Timed) {
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
