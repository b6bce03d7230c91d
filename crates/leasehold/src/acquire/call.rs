//! A call, from its first request to a lease or a refusal, and its events for the observer.
//!
//! A call keeps its future for as long as it waits, and many calls may wait. So a future that is
//! rarely awaited is boxed: then it takes no memory in a call that waits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Error, Grant, Instant, LeaseOptions, LockName, Mode, Reply, Result, StoreError, StoreErrorKind,
};
use tokio::sync::oneshot;

use super::report::Reported;
use super::request::{Asked, Limit, OwnAttempt};
use super::retry::Retry;
use crate::event::{Event, RequestFacts};
use crate::keeper::{Ask, Held, Keeper, PendingRelease, Poller, Step, Turn};
use crate::replies::{refused, unexpected_reply};
use crate::store::clocked::TimedAnswer;

/// Acquires, or returns `None` if the name is busy and the limit is a try.
pub(crate) async fn acquire(mut asked: Asked<'_>) -> Result<Option<Held>> {
    // A call that has no time to wait does not queue: later callers would wait for it.
    let does_not_wait = asked.limit == Limit::Within(Duration::ZERO);
    if does_not_wait {
        asked.limit = Limit::Try;
    }
    let asked = &asked;
    let mut call = AcquireCall::new(asked);
    match call.run().await? {
        None if does_not_wait => Err(asked.timeout(asked.leave_until(), false).await),
        outcome => Ok(outcome),
    }
}

/// Whether enough of a lease's validity is left at `now`.
pub(crate) fn is_enough(held: &Held, options: &LeaseOptions, now: Instant) -> bool {
    let signal = &held.state.signal;
    let left = signal.valid_until().saturating_since(now);
    let is_unchecked = bugs::is_on(Bug::NoCheckAfterReply) || bugs::is_on(Bug::LocalHandOffTooLate);
    signal.check_at(now).is_none() && (left > options.least_validity() || is_unchecked)
}

/// An acquire call under way, across all its attempts.
pub(super) struct AcquireCall<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) own: OwnAttempt,
    pub(super) reported: Reported,
    pub(super) retry: Retry,
    /// The seat of the call among the callers that poll, if the store has no queue.
    pub(super) poller: Option<Poller>,
    /// The time at which the next request is sent.
    pub(super) now: Instant,
}

impl<'a> AcquireCall<'a> {
    fn new(asked: &'a Asked<'a>) -> Self {
        Self {
            asked,
            own: OwnAttempt::new(asked),
            reported: Reported::default(),
            retry: Retry::new(asked.keeper.jitter(), asked.started),
            poller: None,
            now: asked.started,
        }
    }

    async fn run(&mut self) -> Result<Option<Held>> {
        let mut step = self.join()?;
        loop {
            step = match step {
                Step::Join => {
                    self.own.renumber();
                    self.read_clock();
                    self.join()?
                }
                Step::Ask(ask) => self.ask(ask).await?,
                Step::Wait { turn, behind } => {
                    if let Some(behind) = behind {
                        // The first caller of the line polls, so this one needs no seat.
                        self.poller = None;
                        self.asked.report_behind(&mut self.reported, behind);
                    }
                    self.wait(turn).await?
                }
                Step::Busy => return Ok(None),
                Step::Held(held) => return Ok(Some(held)),
            }
        }
    }

    pub(super) fn read_clock(&mut self) {
        self.now = self.asked.keeper.store.now();
    }

    /// Decides whether the call asks the store, or stands in line behind other callers of its
    /// client.
    fn join(&mut self) -> Result<Step> {
        self.own.join(self.asked.waits(), self.now)
    }

    /// Asks until there is an answer.
    async fn ask(&mut self, ask: Ask) -> Result<Step> {
        let Ask { turn, release, yields, .. } = ask;
        let asked = self.asked;
        let mut release = match yields {
            true => Box::pin(asked.make_way(release)).await,
            false => release,
        };
        loop {
            let timed = match self.send(release.take()).await {
                Ok(timed) => timed,
                Err(error) => {
                    Box::pin(self.after_failure(error)).await?;
                    // The end of the client has cancelled the attempt.
                    asked.keeper.ensure_open()?;
                    if self.own.shows_life().is_none() {
                        // The call was skipped, or a message has brought its grant.
                        return Ok(Step::Wait { turn, behind: None });
                    }
                    self.read_clock();
                    continue;
                }
            };
            if timed.answer.reply != Reply::Closed {
                self.retry.reset();
            }
            match timed.answer.reply {
                Reply::Granted(grant) => {
                    let until = asked.keeper.store.valid_until(&timed, asked.options.ttl);
                    return self.granted(turn, grant, until, timed.received).await;
                }
                Reply::Queued(place) => {
                    let attempt = &self.own.attempt;
                    asked.report_queued(&mut self.reported, attempt.request.id, &place);
                    asked.keeper.queued(attempt, place);
                    return Ok(Step::Wait { turn, behind: None });
                }
                Reply::Busy { .. } if !asked.waits() => return Ok(Step::Busy),
                Reply::Busy { retry_after } => {
                    asked.report_busy(&mut self.reported);
                    let took = timed.received.saturating_since(timed.sent);
                    self.wait_to_poll(retry_after, took).await?;
                    // A store that is made of several stores may still be ending this attempt at
                    // some of them. So the call joins with a new attempt.
                    return Ok(Step::Join);
                }
                Reply::Closed | Reply::Revoked => return Ok(Step::Join),
                Reply::Refused(refusal) => {
                    return Err(self.refuse(refused(asked.name, asked.mode, refusal)));
                }
                other => return Err(self.refuse(unexpected_reply(&other))),
            }
        }
    }

    /// Sends a request of the attempt. If the call has a seat, it keeps that seat meanwhile.
    async fn send(&mut self, release: Option<PendingRelease>) -> Result<TimedAnswer, StoreError> {
        let (asked, seat) = (self.asked, self.poller.as_ref().map(Poller::pulse));
        let sending = pin!(self.send_after(release));
        match seat {
            Some(seat) => seat.of(&*asked.keeper.store.clock, sending).await,
            None => sending.await,
        }
    }

    /// Sends a request of the attempt, after the release of the lease that its line had before.
    async fn send_after(
        &mut self,
        release: Option<PendingRelease>,
    ) -> Result<TimedAnswer, StoreError> {
        let (waits, until) = (self.asked.waits(), self.asked.answer_until());
        let sent = pin!(self.own.send(|take| take.with_waits(waits), self.now, until));
        let Some(release) = release else { return sent.await };
        match select(Box::pin(release.send()), sent).await {
            Either::Left(((), sent)) => sent.await,
            // The drop of the release leaves it to the keeper.
            Either::Right((answer, _)) => answer,
        }
    }

    /// Ends this call, and all calls that stand in line behind it, with an error that waiting does
    /// not change.
    pub(super) fn refuse(&self, error: StoreError) -> Error {
        self.asked.keeper.fail_line(&self.own.attempt, &error);
        error.into()
    }

    /// The store has answered with a grant. The grant counts if enough of its validity is left.
    async fn granted(
        &mut self,
        turn: oneshot::Receiver<Turn>,
        grant: Grant,
        valid_until: Instant,
        now: Instant,
    ) -> Result<Step> {
        let asked = self.asked;
        self.own.take_is_waiter();
        let accepted = match asked.keeper.grant(&self.own.attempt, grant, valid_until, now) {
            Some(held) => {
                let is_accepted = held.state.is_delivered()
                    || asked.pulse.is_some() && is_enough(&held, asked.options, now);
                is_accepted.then_some(held)
            }
            // A message was faster: the keeper has already made a lease of the grant.
            None => {
                self.own.finish();
                match turn.await {
                    Ok(Ok(Step::Held(held))) => {
                        self.read_clock();
                        self.fetch(held)
                    }
                    Ok(_) => {
                        self.own.known = true;
                        return Ok(Step::Join);
                    }
                    Err(_) => {
                        // The cancel of a client that was closed may have come before the grant.
                        self.own.known = asked.keeper.ensure_open().is_err();
                        return self.skipped();
                    }
                }
            }
        };
        self.own.finish();
        if let Some(held) = accepted {
            return Ok(Step::Held(held));
        }
        if asked.is_over() {
            let why = "the store answers so slowly that too little of the lease is left";
            return Err(StoreError::new(StoreErrorKind::Timeout, why).into());
        }
        Ok(Step::Join)
    }

    /// The next step of a call that was skipped. The call fails if its client was closed. Otherwise
    /// the call was not polled while it was the first in line, and joins again.
    pub(super) fn skipped(&self) -> Result<Step> {
        self.asked.keeper.ensure_open()?;
        Ok(Step::Join)
    }

    /// Fetches a lease that the keeper has made of a grant, unless the lease was given back before.
    /// A lease with too little validity left is dropped, which gives it back.
    pub(super) fn fetch(&self, held: Held) -> Option<Held> {
        let Asked { options, pulse, .. } = self.asked;
        let is_fetched = is_enough(&held, options, self.now)
            && (pulse.is_some() || Held::mark_delivered(std::slice::from_ref(&held)));
        is_fetched.then_some(held)
    }
}

/// The number of calls of this process so far, one for each name that was asked for.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The events of a call under way. Dropping them before the call has ended reports that it was
/// cancelled.
#[derive(Debug)]
pub(crate) struct CallEvents<'a> {
    keeper: &'a Arc<Keeper>,
    names: &'a [LockName],
    mode: Mode,
    label: Option<&'a str>,
    /// The number of the call for the first name; the others follow.
    pub(crate) first: u64,
    pub(crate) started: Instant,
    has_ended: bool,
}

impl<'a> CallEvents<'a> {
    pub(crate) fn begin(
        keeper: &'a Arc<Keeper>,
        names: &'a [LockName],
        mode: Mode,
        label: Option<&'a str>,
    ) -> Self {
        let first = CALLS.fetch_add(names.len() as u64, Ordering::Relaxed);
        let started = keeper.store.now();
        Self { keeper, names, mode, label, first, started, has_ended: false }
    }

    /// Reports the outcome of the call, with a lease for each name, in the order of the names. A
    /// lease that has ended since is reported, too.
    pub(crate) fn end(mut self, outcome: Result<Option<&[Held]>, &Error>) {
        self.has_ended = true;
        match outcome {
            Ok(Some(leases)) => {
                for (call, held) in (self.first..).zip(leases) {
                    self.keeper.report_granted(call, &held.state, self.started);
                }
            }
            Ok(None) => self.failed("busy", None),
            Err(error @ Error::Timeout { .. }) => self.failed("timeout", Some(error)),
            Err(error) => self.failed("error", Some(error)),
        }
    }

    fn failed(&self, outcome: &'static str, error: Option<&Error>) {
        let waited = self.keeper.store.now().saturating_since(self.started);
        for (call, name) in (self.first..).zip(self.names) {
            let request = RequestFacts { name, mode: self.mode, label: self.label };
            self.keeper.observe(&Event::Failed { call, request, waited, outcome, error });
        }
    }
}

impl Drop for CallEvents<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.failed("cancelled", None);
        }
    }
}
