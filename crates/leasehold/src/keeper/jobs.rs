//! The keeper's requests, and what their answers mean.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{
    Action, Answer, BoxFuture, FencingToken, Grant, HolderId, Instant, LockName, LossReason,
    Operation, Renewal, Reply, StoreError, StoreErrorKind,
};

use super::{Cleanup, Delivery, Granted, Keeper, LeaseState, Turn, Waiter};
use crate::event::Event;
use crate::store::Inbox;
use crate::store::clock_sample::ClockSample;
use crate::store::clocked::TimedAnswer;

/// First and longest delay before a cleanup is tried again.
const CLEANUP_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A finished request.
pub(super) enum Done {
    Cleaned(Result<(), StoreError>),
    Opened(Result<Box<dyn Inbox>, StoreError>),
    Polled {
        name: LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    },
    Reclaimed {
        state: Arc<LeaseState>,
        reason: LossReason,
        result: Result<TimedAnswer, StoreError>,
    },
    Renewed {
        states: Vec<Arc<LeaseState>>,
        result: Result<TimedAnswer, StoreError>,
    },
}

impl Keeper {
    pub(super) fn id(&self, attempt: u64) -> HolderId {
        HolderId { client: self.client, attempt }
    }

    // ---- requests

    pub(super) fn open(self: &Arc<Self>, delay: Duration) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let clock = &keeper.store.clock;
            clock.sleep_until(clock.now() + delay).await;
            Done::Opened(keeper.store.inner.inbox(keeper.client).await)
        })
    }

    pub(super) fn poll(
        self: &Arc<Self>,
        name: LockName,
        id: HolderId,
        ttl: Duration,
    ) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let result = keeper.store.apply(&name, Action::Poll { id, ttl }).await;
            Done::Polled { name, id, result }
        })
    }

    pub(super) fn renew(
        self: &Arc<Self>,
        states: Vec<Arc<LeaseState>>,
        timeout: Duration,
    ) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let deadline = keeper.store.now() + timeout;
            let operation = Operation::Renew(states.iter().map(|state| state.renewal()).collect());
            let result = keeper.store.execute_until(operation, deadline).await;
            Done::Renewed { states, result }
        })
    }

    /// Tries until it is done or does not matter any more.
    pub(super) fn cleanup(self: &Arc<Self>, cleanup: Cleanup) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        let (first, longest) = CLEANUP_BACKOFF;
        let (mut backoff, mut jitter) =
            (Backoff::new(first, longest), Jitter::new(self.table().seed()));
        Box::pin(async move {
            let Cleanup { name, action, until, news } = cleanup;
            loop {
                let error = match keeper.store.apply(&name, action.clone()).await {
                    Ok(_) => {
                        keeper.tell(&name, news).await;
                        return Done::Cleaned(Ok(()));
                    }
                    Err(error) => error,
                };
                let again = keeper.store.now() + backoff.next_delay(&mut jitter);
                if again >= until || !error.kind().is_transient() {
                    return Done::Cleaned(Err(error));
                }
                keeper.store.clock.sleep_until(again).await;
            }
        })
    }

    // ---- answers

    pub(super) fn cleaned(&self, result: Result<(), StoreError>) {
        {
            let mut table = self.table();
            table.unfinished -= 1;
            if let Err(error) = result {
                table.given_up = Some(error);
            }
        }
        self.cleaned.notify_waiters();
        self.settled.notify_all();
    }

    /// Takes note of the answers to renewals, and gives the reclaims that follow from them.
    pub(super) fn renewed(
        self: &Arc<Self>,
        states: &[Arc<LeaseState>],
        result: Result<TimedAnswer, StoreError>,
    ) -> Vec<BoxFuture<'static, Done>> {
        let answered = result.and_then(|timed| match &timed.answer.reply {
            Reply::Many(_) => Ok(timed),
            other => Err(unexpected(other)),
        });
        match &answered {
            Ok(timed @ TimedAnswer { answer: Answer { reply: Reply::Many(replies), .. }, .. }) => {
                let answered = states.iter().zip(replies);
                answered.filter_map(|(to, reply)| self.renewal_answered(to, timed, reply)).collect()
            }
            Ok(_) => Vec::new(),
            Err(cause) => {
                states.iter().for_each(|state| self.renewal_failed(state, cause));
                Vec::new()
            }
        }
    }

    fn renewal_answered(
        self: &Arc<Self>,
        state: &Arc<LeaseState>,
        timed: &TimedAnswer,
        reply: &Reply,
    ) -> Option<BoxFuture<'static, Done>> {
        match renewal_outcome(reply, state.token()) {
            Some(Ok(grant)) => self.extend(state, timed, grant),
            Some(Err(reason)) if self.may_reclaim(state, reason) => {
                let (keeper, state) = (Arc::clone(self), Arc::clone(state));
                return Some(Box::pin(async move {
                    let result = keeper.reclaim(&state).await;
                    Done::Reclaimed { state, reason, result }
                }));
            }
            Some(Err(reason)) => self.lose(state, reason),
            None => self.renewal_failed(state, &unexpected(reply)),
        }
        None
    }

    /// A renewal was answered "yours".
    pub(crate) fn extend(&self, state: &LeaseState, timed: &TimedAnswer, grant: Grant) {
        if state.signal.check().is_some() {
            // It came after the end: what is lost stays lost, and is not renewed any more.
            return self.forget(state);
        }
        state.saw(grant.token);
        state.end_trouble();
        let now = self.store.now();
        let valid_until = self.store.valid_until(timed, grant, state.ttl());
        let until = self.table().renewed(state.id, |renewing| {
            renewing.succeeded(now, valid_until);
            renewing.valid_until()
        });
        if let Some(until) = until {
            let validity = until.saturating_since(now);
            self.observe(&Event::Renewed { name: &state.name, token: state.token(), validity });
        }
    }

    pub(super) fn renewal_failed(&self, state: &LeaseState, cause: &StoreError) {
        let now = self.store.now();
        let is_new = state.note_trouble(cause, now);
        let overdue = self.table().renewed(state.id, |renewing| renewing.failed(now));
        if overdue.is_some_and(|overdue| overdue || is_new) {
            let validity = state.signal.valid_until().saturating_since(now);
            let (name, token) = (&state.name, state.token());
            self.observe(&Event::Overdue { name, token, validity, cause });
        }
    }

    pub(super) fn polled(
        self: &Arc<Self>,
        name: &LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    ) {
        self.told_by_poll(name, id, result);
        self.table().answered(id);
    }

    fn told_by_poll(
        self: &Arc<Self>,
        name: &LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    ) {
        let now = self.store.now();
        let timed = match result {
            Ok(timed) => timed,
            Err(cause) if cause.kind().is_outage() => {
                let lasting = self.table().poll_later(name, &cause, now);
                if let Some(lasting) = lasting {
                    self.observe(&Event::Delayed { name, cause: &cause, lasting });
                }
                return;
            }
            Err(error) => return self.fail_all(name, &error),
        };
        match timed.answer.reply {
            Reply::Granted(grant) => {
                let waiter = self.take_turn(name, id, false, now);
                if let Some(waiter) = waiter {
                    let until = self.store.valid_until(&timed, grant, waiter.options.ttl);
                    self.enter(waiter, grant.token, until, true);
                }
            }
            Reply::Queued(place) => {
                let goes_on = self.table().still_waiting(name, place, timed.answer.more, now);
                if goes_on {
                    self.observe(&Event::Waiting { name, ahead: Some(place.ahead) });
                }
            }
            Reply::Gone => {
                if let Some(waiter) = self.take_turn(name, id, true, now) {
                    // Whoever called may have given up: then there is nobody to tell.
                    let _ = waiter.turn.send(Turn::Gone);
                }
            }
            other => self.fail_all(name, &unexpected(&other)),
        }
    }

    /// Takes a waiter whose fate is known, and lets the next of its name be asked about.
    fn take_turn(&self, name: &LockName, id: HolderId, gone: bool, now: Instant) -> Option<Waiter> {
        let mut table = self.table();
        let waiter = table.take_waiter(id);
        if gone {
            table.suspect_all(name, now);
        } else {
            table.poll_next(name, now);
        }
        waiter
    }

    fn fail_all(&self, name: &LockName, error: &StoreError) {
        let waiters = self.table().take_waiters_of(name);
        for waiter in waiters {
            let same = StoreError::new(error.kind(), error.to_string());
            let _ = waiter.turn.send(Turn::Failed(same));
        }
    }

    /// A message says that an attempt was granted. Enters at once where that is sound, else the
    /// store is asked first.
    pub(super) fn granted_by_message(
        self: &Arc<Self>,
        attempt: u64,
        nonce: u64,
        token: FencingToken,
        (granted_us, deadline_us): (u64, u64),
    ) {
        let (id, now) = (self.id(attempt), self.store.now());
        let mut table = self.table();
        if let Some(lease) = table.lease(id).cloned() {
            drop(table);
            return lease.upgraded.notify_one();
        }
        if let Some(name) = table.ended.granted_again(id, token) {
            drop(table);
            let release = Action::Release { id, keep: Duration::ZERO, unanswered: false };
            return self.clean(name, release, CLAIM_WINDOW);
        }
        let Some(waiter) = table.waiter(id).filter(|waiter| waiter.nonce == nonce) else { return };
        // Without a renewal nothing would confirm it in the background.
        let is_entered = waiter.options.renewal == Renewal::Auto
            && !self.store.inner.capabilities().claims_first;
        let until = self
            .store
            .newest(&waiter.name)
            .map(ClockSample::lease_clock)
            .filter(|_| is_entered)
            .and_then(|newest| {
                self.store.bounds.valid_by_message(newest, now, granted_us, deadline_us)
            })
            .filter(|until| until.saturating_since(now) > waiter.options.least_validity());
        let Some(until) = until else { return table.told(id) };
        let waiter = table.take_waiter(id);
        drop(table);
        if let Some(waiter) = waiter {
            self.enter(waiter, token, until, false);
        }
    }

    /// Gives a waiter its lease. If nobody takes it any more, dropping it lets go, and so does the
    /// keeper if nobody looks for it in time.
    fn enter(
        self: &Arc<Self>,
        waiter: Waiter,
        token: FencingToken,
        valid_until: Instant,
        confirmed: bool,
    ) {
        let now = self.store.now();
        let validity = valid_until.saturating_since(now);
        let delivery = match waiter.pulse {
            Some(pulse) => Delivery::Gathered(pulse),
            None => {
                let limit = waiter.options.max_hold.unwrap_or(validity);
                Delivery::waiting(now, validity.min(limit))
            }
        };
        let held = self.hold(Granted {
            name: waiter.name,
            id: waiter.id,
            mode: waiter.mode,
            options: waiter.options,
            unanswered: waiter.unanswered,
            token,
            valid_until,
            confirmed,
            asked_at: waiter.asked_at,
            delivery,
        });
        drop(waiter.turn.send(Turn::Granted(held)));
    }
}

/// What a renewal's answer says of a lease with this token; `None` if it says nothing.
pub(crate) fn renewal_outcome(
    reply: &Reply,
    token: FencingToken,
) -> Option<Result<Grant, LossReason>> {
    match reply {
        Reply::Granted(grant) => Some(Ok(*grant)),
        Reply::NotHeld { newest } => Some(Err(match newest {
            Some(by) if by.us() > token.us() => LossReason::Superseded { by: *by },
            Some(newest) if newest.us() == token.us() => LossReason::Expired,
            Some(_) | None => LossReason::Vanished,
        })),
        Reply::Revoked(_) => Some(Err(LossReason::Revoked)),
        _ => None,
    }
}

/// An answer that does not belong to its question.
pub(crate) fn unexpected(reply: &Reply) -> StoreError {
    let message = format!("the store's answer does not belong to the question: {reply:?}");
    StoreError::new(StoreErrorKind::Corrupt, message)
}
