//! A held lease: how it comes into the keeper's table, and out of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::ASK_INTERVAL;
use leasehold_core::renewal::Renewing;
use leasehold_core::{Grant, Instant, LossReason, Operation, Renewal, Reply, Result};

use super::cleanup::{CLEANUP_LIFE, Cleanup, LetGo};
use super::gate::{Front, Wakeup};
use super::lease::{Attempt, Held, LeaseState};
use super::{Keeper, Table};
use crate::lost::{End, Signal};
use crate::replies::{end_notice, may_pass, unexpected_reply};

/// A waiter can use its lease as soon as a message announces the grant, which lasts for two
/// seconds. The client claims the grant after 100 ms, or a little earlier together with another
/// renewal. If the lease is released by then, it needs no claim, so most hand-overs cost one script
/// less.
const CLAIM_AFTER: Duration = Duration::from_millis(100);

/// Until when a grant is valid, and whether it is claimed already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    pub(crate) until: Instant,
    pub(crate) is_claimed: bool,
}

impl Keeper {
    // ---- into keeping

    /// A guard of a lease.
    pub(super) fn held(self: &Arc<Self>, state: Arc<LeaseState>) -> Held {
        Held { keeper: Arc::clone(self), state, has_ended: false }
    }

    /// Adds to the table a lease that was granted to a call. It is delivered, unless other names
    /// are gathered with it. Returns `None` if the client was closed before: then its end has
    /// cancelled the attempt.
    pub(crate) fn grant(
        self: &Arc<Self>,
        (attempt, unanswered): (&Arc<Attempt>, bool),
        mut front: Option<Front>,
        (grant, validity): (Grant, Validity),
        now: Instant,
    ) -> Option<Held> {
        let state = {
            let mut table = self.table();
            table.calls.remove(&attempt.number())?;
            table.granted(attempt, &mut front, now);
            let (ttl, renewal) = (attempt.options.ttl, attempt.options.renewal);
            let renewal = if attempt.gathers.is_some() { Renewal::Auto } else { renewal };
            let seed = self.jitter().next_u64();
            let left = validity.until.saturating_since(now);
            let mut renewing = Renewing::new(ttl, renewal, left, now, seed);
            if !validity.is_claimed {
                renewing.renew_by(now + CLAIM_AFTER);
            }
            let signal = Signal::new(Arc::clone(&self.store.clock), validity.until);
            if grant.described {
                self.listen();
            }
            let state = LeaseState::new(Arc::clone(attempt), unanswered, grant, signal, now);
            if attempt.gathers.is_none() {
                state.mark_delivered(now);
            }
            let due = table.leases.add(Arc::clone(&state), renewing);
            self.wake_by(&mut table, due);
            state
        };
        Some(self.held(state))
    }

    /// Adds to the table a lease that was let go, for the caller that takes it over as `state`: its
    /// release is not sent.
    pub(super) fn take_over(
        self: &Arc<Self>,
        table: &mut Table,
        state: Arc<LeaseState>,
        mut renewing: Renewing,
        now: Instant,
    ) -> Held {
        table.unfinished -= 1;
        state.mark_delivered(now);
        // The answer to a renewal may have come while nobody had the lease.
        renewing.resume(now);
        let due = table.leases.add(Arc::clone(&state), renewing);
        self.wake_by(table, due);
        self.held(state)
    }

    /// Hands gathered leases to their caller. Returns false, and hands over none, if one of them is
    /// no longer in the table, or if the client was closed. `max_hold` counts from the last of the
    /// grants.
    pub(crate) fn mark_delivered(&self, held: &[Held]) -> bool {
        let states = held.iter().map(|held| &held.state);
        let from = states.clone().map(|state| state.granted_at).max().unwrap_or_default();
        let mut table = self.table();
        if table.closed {
            return false;
        }
        let Some(due) = table.leases.mark_delivered(states, from) else { return false };
        self.wake_by(&mut table, due);
        true
    }

    /// Changes the ttl for which these leases are renewed from now on.
    pub(super) fn change_ttl<'a>(
        self: &Arc<Self>,
        states: impl IntoIterator<Item = &'a LeaseState>,
        ttl: Duration,
    ) {
        let now = self.store.now();
        let wakeups: Vec<_> = {
            let mut table = self.table();
            let changed = states.into_iter().map(|state| {
                state.changing().ttl = ttl;
                let left = state.signal.renewed_until().saturating_since(now);
                let set = |renewing: &mut Renewing| renewing.set_ttl(now, ttl, left);
                if let Some(due) = table.leases.update(state.id(), set) {
                    self.wake_by(&mut table, due);
                }
                self.lease_ended(&mut table, state)
            });
            changed.collect()
        };
        wakeups.into_iter().for_each(Wakeup::deliver);
    }

    // ---- out of keeping

    /// Removes a lease from the table. Returns the turn of the next caller of its gate, who asks
    /// for another one, if the lease was there.
    fn remove(self: &Arc<Self>, table: &mut Table, state: &LeaseState) -> Option<Wakeup> {
        table.leases.remove(state)?;
        Some(self.lease_ended(table, state))
    }

    /// Removes a lease from the table and reports its end. The lease still has to be released at
    /// the store.
    pub(crate) fn forget(self: &Arc<Self>, state: &LeaseState) {
        let wakeup = self.remove(&mut self.table(), state);
        self.was_let_go(state, wakeup, self.store.now()).deliver();
    }

    /// Ends a lease that is lost for this reason, whichever caller has it now, and reports the
    /// loss.
    pub(crate) fn lose(self: &Arc<Self>, state: &LeaseState, reason: LossReason) {
        let now = self.store.now();
        let (holder, wakeup) = {
            let mut table = self.table();
            // From here on the lease is not passed on any more.
            let holder = table.leases.get(state.id()).cloned();
            let wakeup = match &holder {
                Some(holder) => self.remove(&mut table, holder),
                None => self.end_let_go(&mut table, state.number()),
            };
            (holder, wakeup)
        };
        if let Some(holder) = holder {
            self.report_end(&holder, holder.signal.end(reason), now);
        } else {
            state.signal.end(reason);
        }
        wakeup.into_iter().for_each(Wakeup::deliver);
    }

    /// Takes a lease out of its gate, because it was changed or may end at any time: the next
    /// caller asks for another one. A forked child has no gate: in the child, the table of this
    /// keeper may stay locked.
    pub(crate) fn leave_gate(self: &Arc<Self>, held: &Held) {
        if !self.is_of_parent() {
            let wakeup = self.lease_ended(&mut self.table(), &held.state);
            wakeup.deliver();
        }
    }

    /// Lets go of a lease: passes it on to the next caller, or releases it in the background,
    /// unless another caller takes it over before that.
    pub(crate) fn let_go(self: &Arc<Self>, state: &Arc<LeaseState>, now: Instant) {
        let longest_ttl = state.changing().longest_ttl;
        let cleanup = Cleanup {
            name: state.name.clone(),
            action: state.release_action(now),
            until: now + longest_ttl.max(CLEANUP_LIFE),
            notice: self.end_notice(state, now),
        };
        let ((is_passed, wakeup), was_running) = {
            let mut table = self.table();
            let taken = self.take_from_holder(&mut table, state, Some(cleanup), now);
            (taken, std::mem::replace(&mut table.running, true))
        };
        self.was_let_go(state, wakeup, now).deliver();
        if !is_passed {
            self.wake.notify_one();
        }
        if !was_running {
            // If no thread can be started, nobody sends the release, and the lease ends by its
            // deadline.
            let _ = self.start();
        }
    }

    /// Takes a lease from its holder. If nobody stands behind, the keeper sends the release
    /// `cleanup`, unless a new caller takes the lease first. Without `cleanup`, the holder sends
    /// the release. Returns whether the lease was passed on; and the turn of the next caller, if
    /// the lease was in the table until now.
    fn take_from_holder(
        self: &Arc<Self>,
        table: &mut Table,
        state: &Arc<LeaseState>,
        cleanup: Option<Cleanup>,
        now: Instant,
    ) -> (bool, Option<Wakeup>) {
        if !table.closed
            && let Some(wakeup) = self.pass_on(table, state, now)
        {
            return (true, Some(wakeup));
        }
        let renewing = table.leases.remove(state);
        let was_kept = renewing.is_some();
        if let Some(cleanup) = cleanup {
            table.unfinished += 1;
            match renewing {
                Some(renewing) => {
                    let let_go = LetGo { state: Arc::clone(state), renewing, cleanup };
                    table.let_go.insert(state.number(), let_go);
                }
                None => table.cleanups.push(cleanup),
            }
        }
        (false, was_kept.then(|| self.lease_ended(table, state)))
    }

    /// Releases a lease that was let go: from here on no caller takes it over. Returns the turn of
    /// the next caller of its gate.
    pub(super) fn end_let_go(self: &Arc<Self>, table: &mut Table, number: u64) -> Option<Wakeup> {
        let LetGo { state, cleanup, .. } = table.let_go.remove(&number)?;
        table.cleanups.push(cleanup);
        Some(self.lease_ended(table, &state))
    }

    /// Ends a lease that was let go, and reports its end. Returns the turn of the next caller.
    fn was_let_go(&self, state: &LeaseState, wakeup: Option<Wakeup>, now: Instant) -> Wakeup {
        let end = state.signal.release_at(now);
        if wakeup.is_some() {
            self.report_end(state, end, now);
        }
        wakeup.unwrap_or_default()
    }

    /// The notice of a lease's end at `now`, for callers that watch the name without a place in its
    /// queue. The end of a short lease is not published: watchers ask soon anyway, and a
    /// publication costs as much as the lease. If the store has no queue, it publishes every end
    /// itself.
    fn end_notice(&self, state: &LeaseState, now: Instant) -> Option<String> {
        let held = now.saturating_since(state.granted_at);
        let is_published = self.store.inner.capabilities().queued && held >= ASK_INTERVAL;
        is_published.then(|| end_notice(state.grant_token))
    }
}

impl Held {
    /// Another guard of the same lease.
    pub(crate) fn again(&self) -> Self {
        let guards = &mut self.state.changing().guards;
        *guards += usize::from(*guards > 0);
        self.keeper.held(Arc::clone(&self.state))
    }

    /// Whether enough of the lease's validity is left at `now`.
    pub(crate) fn is_enough(&self, now: Instant) -> bool {
        let left = self.state.signal.valid_until().saturating_since(now);
        let is_unchecked =
            bugs::is_on(Bug::NoCheckAfterReply) || bugs::is_on(Bug::LocalHandOffTooLate);
        let least = self.state.options.least_validity();
        is_unchecked || self.state.signal.check_at(now).is_none() && left > least
    }

    /// The loss, if the lease is lost at `now`, as an error.
    pub(crate) fn ensure_held_at(&self, now: Instant) -> Result<()> {
        let loss = self.state.signal.check_here(now).and_then(End::loss);
        loss.map_or(Ok(()), |reason| Err(self.state.lost(reason)))
    }

    /// Releases the lease, at `now`, or leaves it to its other guards. If no answer comes, the
    /// keeper repeats the release, which is as good.
    pub(crate) async fn release(&mut self, now: Instant) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        // If guards are released at the same moment, exactly one of them has the lease in the end.
        self.has_ended = state.leave_to_others();
        if self.has_ended {
            return self.ensure_held_at(now);
        }
        match state.signal.check_at(now) {
            Some(End::Lost(reason)) => return Err(state.lost(reason)),
            Some(End::Released) => return Ok(()), // by another guard
            None => {}
        }
        let (is_passed, wakeup) = keeper.take_from_holder(&mut keeper.table(), state, None, now);
        let wakeup = keeper.was_let_go(state, wakeup, now);
        if is_passed {
            self.has_ended = true;
            wakeup.deliver();
            return Ok(());
        }
        let release = Operation::On { name: state.name.clone(), action: state.release_action(now) };
        // The release is sent before the next caller asks: the store serves requests in the order
        // in which they arrive.
        let released = keeper.store.execute_at(release, now, None);
        match join(released, async { wakeup.deliver() }).await.0 {
            Ok(timed) => {
                self.has_ended = true;
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
                    self.has_ended = true;
                }
                Err(error.into())
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.keeper.forget_parents() {
            std::mem::forget(Arc::clone(&self.state));
            return;
        }
        if !self.has_ended && self.state.end_guard() {
            self.keeper.let_go(&self.state, self.keeper.store.now());
            if !self.keeper.has_handles() {
                self.keeper.settle();
            }
        }
    }
}
