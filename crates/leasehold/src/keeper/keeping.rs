//! The keeper takes leases into its table, and out of it.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::ASK_INTERVAL;
use leasehold_core::renewal::Renewing;
use leasehold_core::{
    Error, Grant, Instant, LeaseOptions, LockName, LossReason, Renewal, Reply, Result,
};

use super::cleanups::CLEANUP_LIFE;
use super::handoff::{Handoff, Pulse};
use super::lease::{Attempt, LeaseState};
use super::state::{Cleanup, Held, Keeper, Table, Wakeup};
use crate::lost::{End, Signal};
use crate::replies::{end_notice, may_pass, unexpected_reply};

/// The outcome for a lease that its holder has released or dropped.
pub(super) struct LetGo {
    /// The lease was passed on to the next in line. Otherwise it goes back to the store.
    pub(super) is_passed: bool,
    /// The lease was in the table until now, so its end has to be reported.
    pub(super) was_kept: bool,
    /// The keeper has to be woken for the cleanup.
    pub(super) rings: bool,
    /// The message to a caller in line: the lease itself, or the notice that this caller may have
    /// to ask the store for a lease.
    pub(super) wakeup: Wakeup,
}

impl Table {
    /// The schedule for the renewals of a lease that is valid until `valid_until`. While a call
    /// gathers several names, the keeper renews them: the caller cannot, because it has no guard
    /// yet.
    pub(super) fn renewing(
        &mut self,
        attempt: &Attempt,
        valid_until: Instant,
        now: Instant,
    ) -> Renewing {
        let LeaseOptions { ttl, renewal, .. } = attempt.options;
        let renewal = if attempt.pulse.is_some() { Renewal::Auto } else { renewal };
        Renewing::new(ttl, renewal, valid_until, now, self.seed())
    }

    /// Removes a lease from the table, and returns whether it was there. The first caller of its
    /// line then asks for a new lease.
    pub(super) fn forget(&mut self, state: &LeaseState, now: Instant) -> (bool, Wakeup) {
        match self.leases.remove(state) {
            Some(_) => (true, self.queues.lease_ended(state, now, false)),
            None => (false, Wakeup::default()),
        }
    }
}

impl Keeper {
    // ---- into keeping

    /// Adds to the table a lease that was granted at `now`, for a caller that has it already.
    /// Returns `None` if the client was closed before: then its end has cancelled the attempt.
    pub(crate) fn keep(
        self: &Arc<Self>,
        attempt: &Attempt,
        grant: Grant,
        valid_until: Instant,
        now: Instant,
    ) -> Option<Held> {
        let mut table = self.table();
        table.queues.take(attempt.request.id)?;
        let renewing = table.renewing(attempt, valid_until, now);
        Some(self.hold(&mut table, attempt.clone(), grant, (renewing, Handoff::Done), now))
    }

    /// Adds to the table a lease that an answer, received at `now`, has granted. Delivers the lease
    /// if enough of its validity is left and no other names are gathered with it. Returns `None` if
    /// the attempt has had its turn, if the client was closed, or if the caller was skipped. In the
    /// last case, the caller that is now first in line has the lease.
    pub(crate) fn grant(
        self: &Arc<Self>,
        attempt: &Attempt,
        grant: Grant,
        valid_until: Instant,
        now: Instant,
    ) -> Option<Held> {
        let least = attempt.options.least_validity();
        let is_enough =
            valid_until.saturating_since(now) > least || bugs::is_on(Bug::NoCheckAfterReply);
        let is_delivered = is_enough && attempt.pulse.is_none();
        let limit = attempt.options.max_hold.filter(|_| is_delivered).map(|limit| now + limit);
        let (held, _turn) = {
            let mut table = self.table();
            let waiter = table.queues.take(attempt.request.id)?;
            if waiter.attempt.ticket != attempt.ticket {
                drop(table);
                self.enter(waiter, grant, valid_until, true, now);
                return None;
            }
            let attempt = Attempt { unanswered: attempt.unanswered, ..waiter.attempt };
            let renewing = table.renewing(&attempt, valid_until, now);
            let handoff = attempt.pulse.clone().map_or(Handoff::Done, Handoff::Gathered);
            let held = self.hold(&mut table, attempt, grant, (renewing, handoff), now);
            if is_delivered {
                held.state.mark_delivered(now);
            }
            if let Some(limit) = limit
                && let Some(due) =
                    table.leases.mark_delivered(std::iter::once(&held.state), Some(limit))
            {
                self.wake_by(&mut table, due);
            }
            (held, waiter.turn)
        };
        if is_delivered {
            limit_to(&held.state, limit);
        }
        Some(held)
    }

    /// Adds a lease to the table, with its renewal and how it is handed to its caller.
    pub(super) fn hold(
        self: &Arc<Self>,
        table: &mut Table,
        attempt: Attempt,
        grant: Grant,
        (renewing, handoff): (Renewing, Handoff),
        now: Instant,
    ) -> Held {
        table.queues.granted(&attempt, now);
        let signal = Signal::new(Arc::clone(&self.store.clock), renewing.valid_until());
        let state = LeaseState::new(attempt, grant, signal, now);
        let due = table.leases.add(Arc::clone(&state), renewing, handoff);
        // Revocations arrive in the inbox.
        let opens_inbox = !std::mem::replace(&mut table.wants_inbox, true);
        self.wake_by(table, if opens_inbox { now } else { due });
        Held { keeper: Arc::clone(self), state }
    }

    /// Hands these leases to their caller. Returns false, and hands over none, if one of them is no
    /// longer in the table, or if the client was closed. `max_hold` counts from the last of the
    /// grants, and not from when the caller fetched them.
    pub(super) fn mark_delivered(&self, held: &[Held]) -> bool {
        let states = held.iter().map(|held| &held.state);
        let from = states.clone().map(|state| state.granted_at).max().unwrap_or_default();
        let max_hold = states.clone().find_map(|state| state.options.max_hold);
        let limit = max_hold.map(|limit| from + limit);
        {
            let mut table = self.table();
            if table.closed {
                return false;
            }
            let kept = states.clone();
            let Some(due) = table.leases.mark_delivered(kept, limit) else { return false };
            states.clone().for_each(|state| state.mark_delivered(from));
            self.wake_by(&mut table, due);
        }
        states.for_each(|state| limit_to(state, limit));
        true
    }

    /// Keeps delivered leases back from the call with this pulse.
    fn keep_back(&self, held: &[Held], pulse: &Arc<Pulse>) {
        let mut table = self.table();
        for held in held {
            if let Some(due) = table.leases.keep_back(&held.state, pulse) {
                self.wake_by(&mut table, due);
            }
        }
    }

    /// Changes the ttl for which these leases are renewed from now on.
    pub(super) fn change_ttl<'a>(
        &self,
        states: impl IntoIterator<Item = &'a LeaseState>,
        ttl: Duration,
    ) {
        let now = self.store.now();
        let wakeups: Vec<_> = {
            let mut table = self.table();
            let changed = states.into_iter().map(|state| {
                state.set_ttl(ttl);
                let due = table.leases.update(state.id, now, |renewing| {
                    renewing.set_ttl(now, ttl);
                    renewing.wake_at()
                });
                if let Some(due) = due {
                    self.wake_by(&mut table, due);
                }
                let wakeup = table.queues.lease_ended(state, now, false);
                self.wake_for_queues(&mut table);
                wakeup
            });
            changed.collect()
        };
        wakeups.into_iter().for_each(Wakeup::deliver);
    }

    // ---- out of keeping

    /// Removes a lease from the table and reports its end. The lease still has to be released at
    /// the store.
    pub(crate) fn forget(&self, state: &LeaseState) {
        let now = self.store.now();
        let (was_kept, wakeup) = {
            let mut table = self.table();
            let forgotten = table.forget(state, now);
            self.wake_for_queues(&mut table);
            forgotten
        };
        let end = state.signal.release_at(now);
        if was_kept {
            self.report_end(state, end, now);
        }
        wakeup.deliver();
    }

    /// Ends a lease that is lost for this reason, whichever caller has it now, and reports the
    /// loss.
    pub(crate) fn lose(&self, state: &LeaseState, reason: LossReason) {
        let now = self.store.now();
        let (holder, wakeup) = {
            let mut table = self.table();
            // From here on the lease is not passed on any more.
            let holder = table.leases.get(state.id).cloned();
            let wakeup = holder.as_ref().map(|holder| table.forget(holder, now).1);
            table.queues.end_kept(state.id);
            self.wake_for_queues(&mut table);
            (holder, wakeup)
        };
        if let Some(holder) = holder {
            self.report_end(&holder, holder.signal.end(reason), now);
        } else {
            state.signal.end(reason);
        }
        wakeup.into_iter().for_each(Wakeup::deliver);
    }

    /// Takes a lease out of its line, because it was changed or may end at any time: the next in
    /// line asks for a new one. A forked child has no line: in the child, the table of this keeper
    /// may stay locked.
    pub(crate) fn leave_line(&self, held: &Held) {
        if self.is_of_parent() {
            return;
        }
        let now = self.store.now();
        let wakeup = {
            let mut table = self.table();
            let wakeup = table.queues.lease_ended(&held.state, now, false);
            self.wake_for_queues(&mut table);
            wakeup
        };
        wakeup.deliver();
    }

    /// Gives back a lease that nobody has fetched in time, unless the next in line has it. The
    /// lease is no longer in the table.
    pub(super) fn give_back(
        self: &Arc<Self>,
        state: &Arc<LeaseState>,
        next: Option<Wakeup>,
        now: Instant,
    ) {
        state.signal.end(End::Released);
        self.report_end(state, End::Released, now);
        let is_first = state.finish();
        match next {
            Some(next) => next.deliver(),
            None if is_first => self.let_go(state, now),
            None => {}
        }
    }

    /// Lets go of a lease: passes it on to the next in line, or releases it in the background,
    /// unless another caller takes it over before that.
    pub(crate) fn let_go(self: &Arc<Self>, state: &Arc<LeaseState>, now: Instant) {
        let cleanup = || Cleanup {
            name: state.name.clone(),
            action: state.release_action(now),
            until: now + state.longest_ttl().max(CLEANUP_LIFE),
            notice: self.end_notice(state, now),
        };
        let (let_go, was_running) = {
            let mut table = self.table();
            let let_go = self.take_from_holder(&mut table, state, Some(&cleanup), now);
            (let_go, std::mem::replace(&mut table.running, true))
        };
        let rings = let_go.rings;
        self.was_let_go(state, let_go, now).deliver();
        if rings {
            self.wake.notify_one();
        }
        if !was_running {
            // If no thread can be started, nobody sends the release, and the lease ends by its
            // deadline.
            let _ = self.start();
        }
    }

    /// Takes a lease from its holder. If nobody is in line, the keeper sends the release `cleanup`,
    /// unless a new caller sends it first. Without `cleanup`, the holder sends the release.
    pub(super) fn take_from_holder(
        self: &Arc<Self>,
        table: &mut Table,
        state: &Arc<LeaseState>,
        cleanup: Option<&dyn Fn() -> Cleanup>,
        now: Instant,
    ) -> LetGo {
        if state.was_passed_on() {
            // The caller was too late to fetch the lease.
            let wakeup = Wakeup::default();
            return LetGo { is_passed: true, was_kept: false, rings: false, wakeup };
        }
        if !table.closed
            && let Some((wakeup, due)) = self.pass_on(table, state, now)
        {
            self.wake_by(table, due);
            return LetGo { is_passed: true, was_kept: true, rings: false, wakeup };
        }
        table.ended.add(state.request(), state.grant_token(), &state.name);
        let renewing = table.leases.remove(state);
        let was_kept = renewing.is_some();
        let mut rings = false;
        if let Some(cleanup) = cleanup {
            table.unfinished += 1;
            let kept = renewing.filter(|_| !table.closed);
            match table.queues.keep_for_next(state, kept, Box::new(cleanup())) {
                Ok(is_new) => rings = is_new,
                Err(cleanup) => {
                    table.cleanups.push(*cleanup);
                    rings = true;
                }
            }
        }
        let wakeup = match was_kept {
            true => table.queues.lease_ended(state, now, true),
            false => Wakeup::default(),
        };
        self.wake_for_queues(table);
        LetGo { is_passed: false, was_kept, rings, wakeup }
    }

    /// Ends a lease that was let go, and reports its end. Returns the message to the caller that is
    /// to be woken.
    fn was_let_go(&self, state: &LeaseState, let_go: LetGo, now: Instant) -> Wakeup {
        let end = state.signal.release_at(now);
        if let_go.was_kept {
            self.report_end(state, end, now);
        }
        let_go.wakeup
    }

    /// The notice of a lease's end at `now`, for callers that watch the name without a place in its
    /// queue. The end of a short lease is not published: watchers ask soon anyway, and a
    /// publication costs as much as the lease. If the store has no queue, it publishes every end
    /// itself.
    pub(super) fn end_notice(&self, state: &LeaseState, now: Instant) -> Option<String> {
        let held = now.saturating_since(state.granted_at);
        let is_published = self.store.inner.capabilities().queued && held >= ASK_INTERVAL;
        is_published.then(|| end_notice(state.grant_token()))
    }

    /// Publishes a notice. It is only a hint, because watchers of the name also ask the store.
    pub(super) async fn publish(&self, name: &LockName, notice: Option<String>) {
        if let Some(notice) = notice {
            let _ = self.store.inner.publish(name, &notice).await;
        }
    }
}

impl Held {
    /// Hands all of these leases to their caller. If one of them was given back or has ended, the
    /// call returns false, and the caller gets none of them.
    pub(crate) fn mark_delivered(held: &[Self]) -> bool {
        held.first().is_some_and(|first| first.keeper.mark_delivered(held))
    }

    /// Does `work` before the caller has these leases. They are given back if the call is not
    /// polled meanwhile, and `min_hold` does not keep their names taken. Returns false if the
    /// caller gets none of them, as in [`mark_delivered`](Self::mark_delivered).
    pub(crate) async fn deliver_after(held: &[Self], work: impl Future<Output = ()>) -> bool {
        let Some(Self { keeper, state }) = held.first() else { return false };
        let pulse = Pulse::new(state.ttl());
        let working = async {
            held.iter().for_each(|held| held.state.set_min_hold(Duration::ZERO));
            keeper.keep_back(held, &pulse);
            work.await;
        };
        pulse.of(&*keeper.store.clock, working).await;
        let is_delivered = Self::mark_delivered(held);
        if is_delivered {
            for Self { state, .. } in held {
                state.set_min_hold(state.options.min_hold.unwrap_or_default());
            }
        }
        is_delivered
    }

    /// The error for a lease that ended before any caller had it.
    pub(crate) fn ended(&self) -> Error {
        let reason = self.state.signal.check().and_then(End::loss);
        self.state.lost(reason.unwrap_or(LossReason::Expired))
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.ensure_held_at(self.keeper.store.now())
    }

    /// Like [`ensure_held`](Self::ensure_held), but at `now`, so that several leases are checked at
    /// the same time.
    pub(crate) fn ensure_held_at(&self, now: Instant) -> Result<()> {
        let loss = self.state.signal.check_here(now).and_then(End::loss);
        loss.map_or(Ok(()), |reason| Err(self.state.lost(reason)))
    }

    /// Releases the lease, at `now`. If no answer comes, the keeper repeats the release, which is
    /// as good.
    pub(crate) async fn release(&self, now: Instant) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        match state.signal.check_at(now) {
            Some(End::Lost(reason)) => return Err(state.lost(reason)),
            Some(End::Released) => return Ok(()), // by the keeper, before a caller had it
            None => {}
        }
        let let_go = keeper.take_from_holder(&mut keeper.table(), state, None, now);
        let is_passed = let_go.is_passed;
        let wakeup = keeper.was_let_go(state, let_go, now);
        if is_passed {
            state.finish();
            wakeup.deliver();
            return Ok(());
        }
        let action = state.release_action(now);
        let mut released = std::pin::pin!(keeper.store.apply_at(&state.name, action, now));
        // The release is sent before the next in line asks: the store serves requests in the order
        // in which they arrive.
        let first = poll!(released.as_mut());
        wakeup.deliver();
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => released.await,
        };
        match answer {
            Ok(timed) => {
                state.finish();
                keeper.publish(&state.name, keeper.end_notice(state, now)).await;
                match &timed.answer.reply {
                    Reply::Ended(true) => Ok(()),
                    Reply::Ended(false) => Err(state.lost(LossReason::Vanished)),
                    other => Err(unexpected_reply(other).into()),
                }
            }
            // The drop of this lease leaves the release to the keeper.
            Err(error) if error.kind().is_transient() => Ok(()),
            Err(error) => {
                if !may_pass(error.kind()) {
                    state.finish();
                }
                Err(error.into())
            }
        }
    }
}

/// Limits the hold of a lease that was delivered.
fn limit_to(state: &LeaseState, limit: Option<Instant>) {
    if let Some(limit) = limit {
        state.signal.limit_to(limit);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.keeper.forget_parents() {
            std::mem::forget(Arc::clone(&self.state));
            return;
        }
        if self.state.finish() {
            self.keeper.let_go(&self.state, self.keeper.store.now());
            if !self.keeper.has_handles() {
                self.keeper.settle();
            }
        }
    }
}
