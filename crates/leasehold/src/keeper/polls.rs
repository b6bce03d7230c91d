//! How waiters are registered, are polled for, and get their turn.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::time::micros;
use leasehold_core::{
    Action, BoxFuture, End, FencingToken, Grant, HolderId, Instant, LockName, Mode, Place, Renewal,
    Reply, Result, StoreError,
};

use super::handoff::Handoff;
use super::lease::Attempt;
use super::state::{Keeper, Poll, Step, Waiter};
use crate::event::{Event, RequestFacts};
use crate::replies::unusable_reply;
use crate::store::clocked::TimedAnswer;

/// A waiter can use its lease as soon as a message announces the grant, which lasts for two
/// seconds. The client confirms the grant after 100 ms, or a little earlier together with another
/// renewal. If the lease is released by then, it needs no confirmation, so most hand-overs cost one
/// script less.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

impl Keeper {
    /// Records the place of a waiter that has joined the store's queue, as its caller was told.
    pub(crate) fn queued(&self, attempt: &Attempt, place: Place) {
        let now = self.store.now();
        let mut table = self.table();
        if let Some(at) = table.queues.queued(attempt, place, now) {
            self.wake_by(&mut table, at);
        }
    }

    /// The error of the last poll for the waiters of a name, if that failed.
    pub(crate) fn poll_failure(&self, name: &LockName) -> Option<StoreError> {
        self.table().queues.failure(name)
    }

    /// The lease of this client that must end before another call of this client is granted `mode`,
    /// whether the call tries or queues. The lease of that call itself is `own`, if there is one.
    pub(crate) fn own_in_the_way(
        &self,
        name: &LockName,
        mode: Mode,
        is_queued: bool,
        own: Option<HolderId>,
    ) -> Option<FencingToken> {
        self.table().leases.own_in_the_way(name, mode, is_queued, own)
    }

    // ---- polls

    /// Asks the store about a waiter.
    pub(super) fn poll(self: &Arc<Self>, Poll { name, take }: Poll) -> BoxFuture<'static, ()> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let id = take.request.id;
            let result = keeper.store.apply(&name, Action::Take(take)).await;
            keeper.polled(&name, id, result);
            keeper.table().queues.answered(id);
        })
    }

    fn polled(
        self: &Arc<Self>,
        name: &LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    ) {
        let now = self.store.now();
        let timed = match result {
            Ok(timed) => timed,
            Err(cause) if cause.kind().is_outage() => {
                let is_news = {
                    let mut table = self.table();
                    table.queues.poll_later(name, &cause, now)
                };
                if is_news {
                    self.report_first_waiter(name, None, Some(&cause));
                }
                return;
            }
            Err(error) => return self.fail_all(name, &error),
        };
        match timed.answer.reply {
            Reply::Granted(grant) => {
                let waiter = {
                    let mut table = self.table();
                    let waiter = table.queues.take(id);
                    table.queues.poll_next(name, now);
                    waiter
                };
                if let Some(waiter) = waiter {
                    let until = self.store.valid_until(&timed, waiter.attempt.options.ttl);
                    self.enter(waiter, grant, until, true, now);
                }
            }
            Reply::Queued(place) => {
                let goes_on = self.table().queues.still_waiting(name, id, place, now);
                if goes_on {
                    self.report_first_waiter(name, Some(place.ahead), None);
                }
            }
            Reply::Closed | Reply::Revoked => {
                let waiter = {
                    let mut table = self.table();
                    let waiter = table.queues.take(id);
                    table.queues.poll_next(name, now);
                    table.queues.gone(name, id, now);
                    waiter
                };
                if let Some(waiter) = waiter {
                    // A late copy of a request must not put the attempt into the queue again, and a
                    // hold that was claimed, and then revoked, must not keep the name taken.
                    self.cancel(&waiter);
                    // The send fails if the caller has given up.
                    let _ = waiter.turn.send(Ok(Step::Join));
                }
            }
            other => self.fail_all(name, &unusable_reply(name, &other)),
        }
    }

    /// Reports that the waiters for a name wait on, for the first of them.
    fn report_first_waiter(&self, name: &LockName, ahead: Option<u32>, cause: Option<&StoreError>) {
        let first = {
            let table = self.table();
            let first = table.queues.first_of(name).map(|waiter| &waiter.attempt);
            first.map(|attempt| (attempt.request.mode, attempt.options.label.clone()))
        };
        if let Some((mode, label)) = first {
            let request = RequestFacts { name, mode, label: label.as_deref() };
            self.observe(&Event::Waiting { call: None, request, ahead, own: None, cause });
        }
    }

    /// Fails all callers of this client that wait for the name, and gives up their places in the
    /// store's queue.
    fn fail_all(self: &Arc<Self>, name: &LockName, error: &StoreError) {
        let now = self.store.now();
        let (waiters, behind) = {
            let mut table = self.table();
            let waiters = table.queues.take_all_of(name);
            let behind: Vec<_> = waiters
                .iter()
                .flat_map(|waiter| {
                    table.queues.gone(name, waiter.attempt.request.id, now);
                    table.queues.take_behind(name, waiter.attempt.ticket)
                })
                .collect();
            (waiters, behind)
        };
        for waiter in &waiters {
            self.cancel(waiter);
        }
        waiters.into_iter().chain(behind).for_each(|waiter| waiter.fail(error));
    }

    // ---- grants

    /// Handles a message that an attempt was granted a lease, with its start by the store's clock.
    /// The waiter gets the lease immediately if that is sound; otherwise the keeper asks the
    /// store first.
    pub(super) fn announced(self: &Arc<Self>, id: HolderId, token: FencingToken, granted_us: u64) {
        let now = self.store.now();
        let mut table = self.table();
        if table.leases.get(id).is_some() {
            return; // another copy of the message, or an answer, came first
        }
        if let Some((name, request)) = table.ended.granted_again(id, token) {
            drop(table);
            let end = Action::End(End::new(request));
            return self.clean(name, end, CLAIM_WINDOW);
        }
        let Some(waiter) = table.queues.asking.get(&id) else { return };
        // Without renewals, nothing would confirm the grant in the background.
        let may_enter = waiter.attempt.options.renewal == Renewal::Auto
            && !self.store.inner.capabilities().claims_first;
        let newest = self.store.newest(&waiter.attempt.name).filter(|_| may_enter);
        let until = newest.and_then(|newest| {
            let bounds = &self.store.bounds;
            let deadline_us = granted_us.saturating_add(micros(CLAIM_WINDOW));
            bounds.valid_by_message(newest.lease, now, granted_us, deadline_us)
        });
        let Some(until) = until.filter(|until| *until > now) else {
            return table.queues.announced(id);
        };
        let waiter = table.queues.take(id);
        drop(table);
        if let Some(waiter) = waiter {
            self.enter(waiter, Grant::new(token), until, false, now);
        }
    }

    /// Gives a waiter, and so its line, the lease. If the waiter has gone, the drop of the lease
    /// releases it. If the waiter does not fetch it in time, the keeper releases it.
    pub(super) fn enter(
        self: &Arc<Self>,
        waiter: Waiter,
        grant: Grant,
        valid_until: Instant,
        confirmed: bool,
        now: Instant,
    ) {
        let Waiter { attempt, turn, .. } = waiter;
        let validity = valid_until.saturating_since(now);
        let handoff = match &attempt.pulse {
            Some(pulse) => Handoff::Gathered(Arc::clone(pulse)),
            None => {
                let limit = attempt.options.max_hold.unwrap_or(validity);
                Handoff::waiting(now, validity.min(limit))
            }
        };
        let held = {
            let mut table = self.table();
            let mut renewing = table.renewing(&attempt, valid_until, now);
            if !confirmed {
                renewing.renew_by(now + CONFIRM_AFTER);
            }
            self.hold(&mut table, attempt, grant, (renewing, handoff), now)
        };
        let _ = turn.send(Ok(Step::Held(held)));
    }
}
