//! Leases come into keeping and out of it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::{NOT_AFTER, POLL_INTERVAL};
use leasehold_core::renewal::Renewing;
use leasehold_core::{Action, Instant, LockName, LossReason};

use super::answers::end_notice;
use super::delivery::Delivery;
use super::lease::{Granted, LeaseState};
use super::life::{Held, Keeper, Passed, Table, Turn, Wakeup};
use super::table::{Cleanup, LetGo};
use crate::lost::{End, Signal};

/// A hand-over that was entered before it was confirmed is confirmed after 100 ms, or a little less
/// where another renewal is due: a critical section that is over by then needs no confirmation, and
/// two seconds were granted. That is a script less for most hand-overs.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

impl Keeper {
    // ---- into keeping

    /// Takes a lease into keeping that was granted at `now`.
    pub(crate) fn hold(self: &Arc<Self>, granted: Granted, now: Instant) -> Held {
        let state = self.add_lease(&mut self.table(), granted, now);
        Held { keeper: Arc::clone(self), state }
    }

    /// Takes a lease into keeping that the answer to an acquire has granted, received at `now`, and
    /// delivers it if enough of it is left and no other names are gathered with it. `None` if the
    /// acquire was made known as a waiter and has had its turn, or if its caller was skipped: then
    /// whoever is the first in line instead has the lease.
    pub(crate) fn grant(
        self: &Arc<Self>,
        granted: Granted,
        is_waiter: bool,
        now: Instant,
    ) -> Option<Held> {
        let least = granted.options.least_validity();
        let is_enough = granted.valid_until.saturating_since(now) > least
            || bugs::is_on(Bug::NoCheckAfterReply);
        let is_delivered = is_enough && matches!(granted.delivery, Delivery::Done);
        let limit = granted.options.max_hold.filter(|_| is_delivered).map(|limit| now + limit);
        let (state, _waiter) = {
            let mut table = self.table();
            let waiter = table.waiters.take(granted.id);
            match &waiter {
                Some(other) if is_waiter && other.ticket != granted.ticket => {
                    drop(table);
                    let Granted { token, valid_until, confirmed, .. } = granted;
                    self.enter(waiter?, token, valid_until, confirmed, now);
                    return None;
                }
                None if is_waiter => return None,
                Some(_) | None => {}
            }
            let state = self.add_lease(&mut table, granted, now);
            if is_delivered {
                state.mark_delivered(now);
            }
            if let Some(limit) = limit
                && let Some(due) = table.leases.mark_delivered(std::iter::once(&state), Some(limit))
            {
                self.wake_by(&mut table, due);
            }
            (state, waiter)
        };
        if is_delivered {
            limit_to(&state, limit);
        }
        Some(Held { keeper: Arc::clone(self), state })
    }

    fn add_lease(&self, table: &mut Table, mut granted: Granted, now: Instant) -> Arc<LeaseState> {
        let delivery = std::mem::replace(&mut granted.delivery, Delivery::Done);
        let (ttl, renewal) = (granted.options.ttl, granted.options.renewal);
        let mut renewing = Renewing::new(ttl, renewal, granted.valid_until, now, table.seed());
        if !granted.confirmed {
            renewing.renew_by(now + CONFIRM_AFTER);
        }
        let signal = Signal::new(Arc::clone(&self.store.clock), renewing.valid_until());
        let (joins, ticket) = (granted.joins, granted.ticket);
        let state = Arc::new(LeaseState::new(granted, signal, now));
        table.lines.granted(&state, joins, ticket, now);
        let due = table.leases.add(Arc::clone(&state), renewing, delivery);
        // Revocations arrive there.
        let opens_inbox = !std::mem::replace(&mut table.wants_inbox, true);
        self.wake_by(table, if opens_inbox { now } else { due });
        state
    }

    /// The caller has these leases from now on; false, and none of them, if one is not kept any
    /// more. What it may hold at most counts from the grant, or the last of them, and not from when
    /// it came for them.
    pub(super) fn mark_delivered(&self, held: &[Held]) -> bool {
        let states = held.iter().map(|held| &held.state);
        let from = states.clone().map(|state| state.granted_at).max().unwrap_or_default();
        let max_hold = states.clone().find_map(|state| state.options.max_hold);
        let limit = max_hold.map(|limit| from + limit);
        {
            let mut table = self.table();
            let kept = states.clone();
            let Some(due) = table.leases.mark_delivered(kept, limit) else { return false };
            states.clone().for_each(|state| state.mark_delivered(from));
            self.wake_by(&mut table, due);
        }
        states.for_each(|state| limit_to(state, limit));
        true
    }

    /// Renews leases for this long from now on.
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
                let wakeup = table.leave_line(state, now);
                self.wake_for_lines(&mut table);
                wakeup
            });
            changed.collect()
        };
        wakeups.into_iter().for_each(Wakeup::deliver);
    }

    // ---- out of keeping

    /// Takes a lease out of keeping and reports its end. The store still has to be told.
    pub(crate) fn forget(&self, state: &LeaseState) {
        let now = self.store.now();
        let (was_kept, wakeup) = {
            let mut table = self.table();
            let forgotten = table.forget(state, now);
            self.wake_for_lines(&mut table);
            forgotten
        };
        let end = state.signal.release_at(now);
        if was_kept {
            self.report_end(state, end, now);
        }
        wakeup.deliver();
    }

    /// Ends a lease for a reason that was found out, in whosever hands it is now, and reports that.
    pub(crate) fn lose(&self, state: &LeaseState, reason: LossReason) {
        let now = self.store.now();
        let (holder, wakeup) = {
            let mut table = self.table();
            // From here on it is not passed on any more.
            let holder = table.leases.get(state.id).cloned();
            let wakeup = holder.as_ref().map(|holder| table.forget(holder, now).1);
            table.lines.end_kept(state.id);
            self.wake_for_lines(&mut table);
            (holder, wakeup)
        };
        if let Some(holder) = holder {
            self.report_end(&holder, holder.signal.end(reason), now);
        } else {
            state.signal.end(reason);
        }
        wakeup.into_iter().for_each(Wakeup::deliver);
    }

    /// Gives back what nobody has fetched in time, unless the next in line has it. The table has
    /// forgotten it already.
    pub(super) fn give_back(
        self: &Arc<Self>,
        state: &Arc<LeaseState>,
        next: Option<Passed>,
        now: Instant,
    ) {
        state.signal.end(End::Released);
        self.report_end(state, End::Released, now);
        let is_first = state.finish();
        match next {
            Some(next) => self.deliver(next),
            None if is_first => self.let_go(state, now),
            None => {}
        }
    }

    /// Lets go of a lease: passes it on to the next in line, or has it released in the background,
    /// if nobody takes it over before.
    pub(crate) fn let_go(self: &Arc<Self>, state: &Arc<LeaseState>, now: Instant) {
        let cleanup = || Cleanup {
            name: state.name.clone(),
            action: state.release_action(now),
            until: now + state.longest_ttl().max(NOT_AFTER),
            notice: self.end_notice(state, now),
        };
        let (was_kept, rings, wakeup, was_running) = {
            let mut table = self.table();
            match table.let_go(state, Some(&cleanup), now) {
                LetGo::Passed(passed) => {
                    self.wake_by(&mut table, passed.due);
                    drop(table);
                    return self.pass_on(state, passed, now);
                }
                LetGo::Released { was_kept, rings, wakeup } => {
                    self.wake_for_lines(&mut table);
                    (was_kept, rings, wakeup, std::mem::replace(&mut table.running, true))
                }
            }
        };
        let end = state.signal.release_at(now);
        if was_kept {
            self.report_end(state, end, now);
        }
        wakeup.deliver();
        if rings {
            self.wake.notify_one();
        }
        if !was_running {
            // Without a thread there is nobody to do it; the lease then ends by its deadline.
            let _ = self.start();
        }
    }

    /// Lets go of a lease that its holder releases itself, with the action that is given, after
    /// which whoever is the next in line is woken; `None` if that one has it already.
    pub(super) fn begin_release(
        self: &Arc<Self>,
        state: &Arc<LeaseState>,
        now: Instant,
    ) -> Option<(Action, Wakeup)> {
        let let_go = {
            let mut table = self.table();
            let let_go = table.let_go(state, None, now);
            match &let_go {
                LetGo::Passed(passed) => self.wake_by(&mut table, passed.due),
                LetGo::Released { .. } => self.wake_for_lines(&mut table),
            }
            let_go
        };
        match let_go {
            LetGo::Passed(passed) => {
                state.finish();
                self.pass_on(state, passed, now);
                None
            }
            LetGo::Released { was_kept, rings: _, wakeup } => {
                let end = state.signal.release_at(now);
                if was_kept {
                    self.report_end(state, end, now);
                }
                Some((state.release_action(now), wakeup))
            }
        }
    }

    fn pass_on(self: &Arc<Self>, state: &LeaseState, passed: Passed, now: Instant) {
        state.signal.end(End::Released);
        self.report_end(state, End::Released, now);
        self.deliver(passed);
    }

    /// Gives a lease to the next in line. If that one has gone in this moment, dropping what it was
    /// sent lets go once more.
    pub(super) fn deliver(self: &Arc<Self>, passed: Passed) {
        let Passed { state, turn, .. } = passed;
        let held = Held { keeper: Arc::clone(self), state };
        let _ = turn.send(Turn::Granted(held));
    }

    /// What is published of the end of a lease at `now`, for those who watch the name without a
    /// place in its queue: nothing of one so short that they would have asked by then, for
    /// publishing costs as much as the lease. Where there is no queue, the store publishes every
    /// end itself.
    pub(super) fn end_notice(&self, state: &LeaseState, now: Instant) -> Option<String> {
        let held = now.saturating_since(state.granted_at);
        let is_published = self.store.inner.capabilities().queued && held >= POLL_INTERVAL;
        is_published.then(|| end_notice(state.grant_token()))
    }

    /// Publishes a notice. A hint: whoever watches the name finds out by asking as well.
    pub(super) async fn publish(&self, name: &LockName, notice: Option<String>) {
        if let Some(notice) = notice {
            let _ = self.store.inner.publish(name, &notice).await;
        }
    }
}

/// What a lease may be held at most counts from its delivery on.
fn limit_to(state: &LeaseState, limit: Option<Instant>) {
    if let Some(limit) = limit {
        state.signal.limit_to(limit);
    }
}
