//! A call, from its first request to a lease or a refusal. Its future asks the store, waits, and
//! asks again.
//!
//! A call keeps its future for as long as it waits, and many calls may wait. So a future that is
//! rarely awaited is boxed: then it takes no memory in a call that waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Jitter;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::{ASK_INTERVAL, CLAIM_WINDOW};
use leasehold_core::time::micros;
use leasehold_core::{
    Error, FencingToken, Grant, Instant, Place, Renewal, Reply, Result, StoreError, StoreErrorKind,
};

use super::poller::Poller;
use super::report::Reported;
use super::request::{Asked, OwnAttempt, Retry, is_granted_in_vain};
use crate::clock::within;
use crate::keeper::{Front, Held, Told, Turn, Validity};
use crate::replies::{refused, unexpected_reply};

/// If too few nodes of a quorum answer in time, a try asks again for 500 ms: several rounds of the
/// usual timeout. A hiccup is over by then; any other trouble lasts.
const QUORUM_PATIENCE: Duration = Duration::from_millis(500);

/// Acquires, or returns `None` if the name is busy and the limit is a try.
pub(crate) async fn acquire(asked: Asked<'_>) -> Result<Option<Held>> {
    let outcome = Call::new(&asked).run().await?;
    if outcome.is_none() { asked.busy().await } else { Ok(outcome) }
}

/// A call under way, across all its attempts.
struct Call<'a> {
    asked: &'a Asked<'a>,
    own: OwnAttempt<'a>,
    reported: Reported,
    retry: Retry,
    /// The first place at the client's gate, while this call has it.
    front: Option<Front>,
    /// What the call waits by, at a store without a queue.
    poller: Option<Poller>,
    /// The time at which the next request is sent.
    now: Instant,
}

impl<'a> Call<'a> {
    fn new(asked: &'a Asked<'a>) -> Self {
        Self {
            asked,
            own: OwnAttempt::new(asked),
            reported: Reported::default(),
            retry: Retry::new(asked.keeper.jitter(), asked.started),
            front: None,
            poller: None,
            now: asked.started,
        }
    }

    fn read_clock(&mut self) {
        self.now = self.asked.keeper.store.now();
    }

    async fn run(&mut self) -> Result<Option<Held>> {
        loop {
            let held = match self.enter().await? {
                Turn::Ask(front) => {
                    self.front = front;
                    self.ask().await?
                }
                Turn::Busy => None,
                Turn::Held(held) => Some(held),
            };
            let Some(held) = held else { return Ok(None) };
            if self.asked.prepared().await? {
                self.read_clock();
            }
            if held.is_enough(self.now) {
                return Ok(Some(held));
            }
            // The drop of the lease gives it back.
            drop(held);
            self.read_clock();
            if self.asked.is_over() {
                let why = "the store answers so slowly that too little of the lease is left";
                return Err(StoreError::new(StoreErrorKind::Timeout, why).into());
            }
            self.own = OwnAttempt::new(self.asked);
        }
    }

    /// Waits for the call's turn among the callers of its client.
    async fn enter(&mut self) -> Result<Turn> {
        let asked = self.asked;
        let entered = asked.keeper.enter(&self.own.attempt, asked.waits(), self.now)?;
        let mut waiting = match entered {
            Ok(turn) => {
                self.own.is_registered = matches!(turn, Turn::Ask(_));
                return Ok(turn);
            }
            Err(waiting) => waiting,
        };
        asked.report_behind(&mut self.reported, &waiting);
        let Some(turn) = asked.until_limit(&mut waiting.turn).await else {
            drop(waiting);
            return Err(asked.timeout(asked.leave_until(), true).await);
        };
        // The keeper may have dropped the sender.
        let turn = turn.map_err(|_| Error::Closed)??;
        if let Turn::Held(held) = &turn {
            self.read_clock();
            held.state.mark_delivered(self.now);
            return Ok(turn);
        }
        if !asked.keeper.store.inner.capabilities().queued {
            let way = Poller::make_way(&asked.keeper.store, &mut self.retry.backoff.jitter);
            Box::pin(way).await;
        }
        self.read_clock();
        self.own.register()?;
        Ok(turn)
    }

    /// Asks the store until there is a lease. Returns `None` if the name is busy.
    async fn ask(&mut self) -> Result<Option<Held>> {
        let (asked, waits) = (self.asked, self.asked.waits());
        let store = &asked.keeper.store;
        loop {
            let sent = self.own.send(|take| take.with_waits(waits), self.now, asked.answer_until());
            let timed = match sent.await {
                Ok(timed) => timed,
                Err(error) => {
                    Box::pin(self.after_failure(error)).await?;
                    asked.keeper.ensure_open()?;
                    self.read_clock();
                    continue;
                }
            };
            self.now = timed.received;
            if timed.answer.reply != Reply::Closed {
                self.retry.backoff.reset();
            }
            match timed.answer.reply {
                Reply::Granted(grant) => {
                    let until = store.valid_until(&timed, asked.options.ttl);
                    return self.granted(grant, Validity { until, is_claimed: true }).map(Some);
                }
                Reply::Queued(place) => {
                    if self.own.place.replace(place.sequence).is_none() {
                        asked.keeper.listen();
                        asked.report_queued(&mut self.reported, self.own.attempt.id(), &place);
                    } else {
                        asked.report_goes_on(&mut self.reported, place.ahead);
                    }
                    if let Some((token, until)) = self.wait_in_queue(place).await? {
                        let validity = Validity { until, is_claimed: false };
                        return self.granted(Grant::new(token), validity).map(Some);
                    }
                }
                Reply::Busy { .. } if !waits => return Ok(None),
                Reply::Busy { retry_after } => {
                    asked.report_busy(&mut self.reported);
                    let took = timed.received.saturating_since(timed.sent);
                    self.wait_to_poll(retry_after, took).await?;
                    // A store that is made of several stores may still be ending this attempt at
                    // some of them.
                    self.own.renew(asked)?;
                }
                Reply::Closed => self.own.renew(asked)?,
                Reply::Revoked => {
                    // The hold was claimed, and then revoked: it must not keep the name taken.
                    self.own.known = true;
                    self.own.renew(asked)?;
                }
                Reply::Done { last, next_in } => {
                    return Err(Error::already_done(asked.name.clone(), last, next_in));
                }
                Reply::Refused(refusal) => {
                    return Err(self.refuse(refused(asked.name, asked.mode, refusal)));
                }
                other => return Err(self.refuse(unexpected_reply(&other))),
            }
            asked.keeper.ensure_open()?;
            self.read_clock();
        }
    }

    /// Ends this call, and all calls that stand behind it, with an error that waiting does not
    /// change.
    fn refuse(&self, error: StoreError) -> Error {
        if let Some(front) = &self.front {
            front.fail(&error);
        }
        error.into()
    }

    /// The store has granted the attempt.
    fn granted(&mut self, grant: Grant, validity: Validity) -> Result<Held> {
        // The next caller at the gate subscribes, or takes the subscription over.
        self.poller = None;
        let (front, keeper) = (self.front.take(), self.asked.keeper);
        let held = keeper.grant(self.own.asked(), front, (grant, validity), self.now);
        // If the client was closed, the drop of the attempt ends it once more.
        let held = held.ok_or(Error::Closed)?;
        self.own.finish();
        Ok(held)
    }

    /// Waits in the store's queue until it is time to ask again. Returns the grant if a message
    /// brought it: its token, and until when it is valid.
    async fn wait_in_queue(&mut self, place: Place) -> Result<Option<(FencingToken, Instant)>> {
        let asked = self.asked;
        let store = &asked.keeper.store;
        let attempt = Arc::clone(&self.own.attempt);
        let ask_at = self.now + patience(place, &mut self.retry.backoff.jitter);
        let limit = asked.give_up();
        let until = limit.map_or(ask_at, |limit| limit.min(ask_at));
        let told = within(&*store.clock, until, pin!(attempt.told())).await;
        self.read_clock();
        if limit.is_some_and(|limit| self.now >= limit) {
            return Err(Box::pin(self.leave()).await);
        }
        asked.report_late_poll(self.now.saturating_since(ask_at));
        Ok(match told {
            None | Some(Told::Ask) => None,
            Some(Told::Granted { token, now_us }) => {
                self.valid_by_message(now_us).map(|until| (token, until))
            }
        })
    }

    /// Until when a grant is valid that a message announces, if the call may rely on the message
    /// alone. Otherwise it asks the store first.
    fn valid_by_message(&self, granted_us: u64) -> Option<Instant> {
        let (asked, store) = (self.asked, &self.asked.keeper.store);
        // Without renewals, nothing would claim the grant in the background. And the store says
        // whether the run before has succeeded.
        let may_enter = asked.options.renewal == Renewal::Auto
            && asked.options.once_per.is_none()
            && !store.inner.capabilities().claims_first;
        let newest = store.newest(asked.name).filter(|_| may_enter)?;
        let deadline_us = granted_us.saturating_add(micros(CLAIM_WINDOW));
        let until = store.bounds.valid_by_message(newest.lease, self.now, granted_us, deadline_us);
        until.filter(|until| *until > self.now)
    }

    /// Leaves the queue. The error says what was in the way: a store that cannot be reached, or the
    /// holder of the lock.
    async fn leave(&mut self) -> Error {
        let until = self.asked.leave_until();
        let left = self.own.end_now(until).await;
        if let Some(failure) = self.reported.failure() {
            return failure.into();
        }
        match left {
            Ok(()) => self.asked.timeout(until, true).await,
            Err(error) => error.into(),
        }
    }

    /// Waits until it is time to poll a store without a queue, but not past the limit.
    async fn wait_to_poll(&mut self, retry_after: Duration, took: Duration) -> Result<()> {
        let (asked, poller, front) = (self.asked, &mut self.poller, &self.front);
        let store = &asked.keeper.store;
        let waiting = async {
            match poller {
                Some(poller) => poller.wait(store, retry_after, took).await,
                None => {
                    // A release before the subscription sent its message to nobody here, so the
                    // call polls once more.
                    *poller = Some(Poller::new(asked, front.as_ref()).await);
                }
            }
        };
        match asked.until_limit(pin!(waiting)).await {
            Some(()) => Ok(()),
            None => Err(asked.timeout(asked.leave_until(), false).await),
        }
    }

    /// Decides whether to ask again after a request without an answer, and waits until it is time.
    /// A refusal is an answer, and ends the call.
    async fn after_failure(&mut self, error: StoreError) -> Result<()> {
        let asked = self.asked;
        if !error.kind().is_outage() {
            let is_unanswered = self.own.unanswered;
            return Err(self.refuse(if is_unanswered { error.maybe_executed() } else { error }));
        }
        let so_far = asked.keeper.store.now().saturating_since(asked.started);
        let tries_on = match error.kind() {
            _ if asked.waits() => true,
            StoreErrorKind::NoQuorum { .. } => {
                error.may_have_executed() && so_far < QUORUM_PATIENCE
            }
            _ => error.may_have_executed() && !is_granted_in_vain(&error),
        };
        if tries_on && asked.give_up().is_none_or(|limit| self.retry.at < limit) {
            asked.report_trouble(&mut self.reported, &error);
            self.retry.pause(&asked.keeper.store, asked.give_up()).await;
            return Ok(());
        }
        let name = asked.name.clone();
        if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) {
            return Err(error.into());
        }
        if self.own.place.is_some() {
            asked.report_trouble(&mut self.reported, &error);
            return Err(self.leave().await);
        }
        let may_be_settled = is_granted_in_vain(&error) || !self.own.unanswered;
        let source = self.reported.cause_of(error);
        if !may_be_settled || self.own.end_now(asked.leave_until()).await.is_err() {
            return Err(Error::indeterminate(name, asked.options.ttl, source));
        }
        Err(source.into())
    }
}

/// The delay before a waiter asks again. For the first in the queue, it lasts until the lock may be
/// free; for the others, as long as the store says.
fn patience(place: Place, jitter: &mut Jitter) -> Duration {
    let (low, high) = match place.ahead {
        0 => (Duration::from_millis(1), Duration::from_millis(5)),
        _ if bugs::is_on(Bug::OnlyHeadIsPolled) => return Duration::from_hours(1),
        _ => return jitter.between(place.retry_after * 4 / 5, place.retry_after),
    };
    (place.retry_after + jitter.between(low, high)).min(ASK_INTERVAL)
}
