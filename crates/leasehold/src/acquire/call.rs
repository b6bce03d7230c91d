//! A call, from its first request to a lease, to a refusal or to its limit.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    Acquire, Action, Error, FencingToken, Instant, LeaseOptions, Reply, Result, StoreError,
    StoreErrorKind,
};
use tokio::sync::oneshot;

use super::report::Reported;
use super::request::{Asked, Limit, OwnAttempt, is_granted_in_vain};
use super::retry::Retry;
use crate::keeper::{Ask, Held, PendingRelease, Poller, Step, Turn};
use crate::replies::{refused, unexpected_reply};
use crate::store::clocked::TimedAnswer;

/// A try goes on asking a quorum of which too few nodes answer in time for 500 ms, several rounds
/// of the usual timeout. A hiccup is over by then; any other trouble lasts.
const QUORUM_PATIENCE: Duration = Duration::from_millis(500);

/// Acquires, or gives `None` if it is busy and the limit is a try.
pub(crate) async fn acquire(mut asked: Asked<'_>) -> Result<Option<Held>> {
    // A call that has no time to wait does not queue: later callers would wait for it.
    let does_not_wait = asked.limit == Limit::Within(Duration::ZERO);
    if does_not_wait {
        asked.limit = Limit::Try;
    }
    let asked = &asked;
    let run = pin!(AcquireCall::new(asked).run());
    let outcome = match asked.limit {
        Limit::Try => run.await,
        Limit::Forever | Limit::Within(_) => {
            match select(run, pin!(asked.report_own_process())).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right((never, _)) => match never {},
            }
        }
    };
    match outcome? {
        None if does_not_wait => Err(asked.timeout(asked.leave_until(), false).await),
        outcome => Ok(outcome),
    }
}

/// Whether enough is left of a lease for it to count.
pub(crate) fn is_enough(held: &Held, options: &LeaseOptions) -> bool {
    let (signal, now) = (&held.state.signal, held.keeper.store.now());
    let left = signal.valid_until().saturating_since(now);
    let is_unchecked = bugs::is_on(Bug::NoCheckAfterReply) || bugs::is_on(Bug::LocalHandOffTooLate);
    signal.check_at(now).is_none() && (left > options.least_validity() || is_unchecked)
}

/// One acquire call under way, over all its attempts.
struct AcquireCall<'a> {
    asked: &'a Asked<'a>,
    own: OwnAttempt,
    reported: Reported,
    retry: Retry,
    /// The seat of the call among those that poll, where the store has no queue.
    poller: Option<Poller>,
    /// When the next request is sent.
    now: Instant,
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

    async fn run(mut self) -> Result<Option<Held>> {
        if !self.asked.keeper.store.has_sample() {
            self.sample_clock().await?;
        }
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
                        // The first of the line polls.
                        self.poller = None;
                        self.asked.report_behind(&mut self.reported, behind);
                    }
                    let step = self.wait(turn).await?;
                    self.read_clock();
                    step
                }
                Step::Busy => return Ok(None),
                Step::Held(held) => return Ok(Some(held)),
            }
        }
    }

    fn read_clock(&mut self) {
        self.now = self.asked.keeper.store.now();
    }

    /// Asks the store, or stands behind others of its client.
    fn join(&mut self) -> Result<Step> {
        self.own.join(self.asked.waits(), self.now)
    }

    /// Finds out what time it is at the store, which every acquire must carry.
    async fn sample_clock(&mut self) -> Result<()> {
        let (asked, mut retry) = (self.asked, Retry::new(self.asked.keeper.jitter(), self.now));
        loop {
            asked.keeper.ensure_open()?;
            let in_time = retry.is_before(asked.give_up());
            match asked.sample_clock(asked.answer_until()).await {
                Ok(()) => {
                    self.read_clock();
                    return Ok(());
                }
                Err(error) if error.kind().is_outage() && in_time => {
                    asked.report_delayed(&mut self.reported, &error);
                    retry.pause(&asked.keeper.store, asked.give_up()).await;
                }
                Err(error) => return Err(self.reported.cause_of(error).into()),
            }
        }
    }

    /// Asks until there is an answer.
    async fn ask(&mut self, ask: Ask) -> Result<Step> {
        let Ask { turn, release, yields, .. } = ask;
        let asked = self.asked;
        let mut release = match yields {
            true => asked.make_way(release).await,
            false => release,
        };
        loop {
            let timed = match self.send(release.take()).await {
                Ok(timed) => timed,
                Err(error) => {
                    self.after_failure(error).await?;
                    if self.own.shows_life().is_none() {
                        return Ok(Step::Join);
                    }
                    self.read_clock();
                    continue;
                }
            };
            if timed.answer.reply != Reply::Stale {
                self.retry.reset();
            }
            match timed.answer.reply {
                Reply::Granted(grant) => {
                    let until = asked.keeper.store.valid_until(&timed, grant, asked.options.ttl);
                    return self.granted(turn, grant.token, until, timed.received).await;
                }
                Reply::Queued(place) => {
                    let attempt = &self.own.attempt;
                    asked.report_queued(&mut self.reported, attempt.id, &place);
                    asked.keeper.queued(attempt.id, place, attempt.unanswered);
                    return Ok(Step::Wait { turn, behind: None });
                }
                Reply::Busy { .. } if timed.answer.more => {}
                Reply::Busy { .. } if !asked.waits() => return Ok(Step::Busy),
                Reply::Busy { retry_after } => {
                    asked.report_busy(&mut self.reported);
                    let took = timed.received.saturating_since(timed.sent);
                    self.wait_to_poll(retry_after, took).await?;
                    // A store made of stores may still be ending this one here or there.
                    return Ok(Step::Join);
                }
                Reply::Late => {}
                Reply::Stale => return Ok(Step::Join),
                Reply::Refused(refusal) => {
                    return Err(self.refuse(refused(asked.name, asked.mode, refusal)));
                }
                other => return Err(self.refuse(unexpected_reply(&other))),
            }
            self.read_clock();
        }
    }

    /// Sends a copy of the attempt, after the release of what its line had before.
    async fn send(&mut self, release: Option<PendingRelease>) -> Result<TimedAnswer, StoreError> {
        let (waits, until) = (self.asked.waits(), self.asked.answer_until());
        let acquire = |request: Acquire| Action::Acquire(request.with_wait(waits));
        let sent = self.own.send(acquire, self.now, until);
        let Some(release) = release else { return sent.await };
        let (released, sent) = (pin!(release.send()), pin!(sent));
        match select(released, sent).await {
            Either::Left(((), sent)) => sent.await,
            // Dropping the release leaves it to the keeper.
            Either::Right((answer, _)) => answer,
        }
    }

    /// An answer that no waiting changes ends the call, and those of all who stand in line behind
    /// it.
    fn refuse(&self, error: StoreError) -> Error {
        self.asked.keeper.fail_line(&self.own.attempt, &error);
        error.into()
    }

    /// Decides whether to ask again after no answer, and waits until then. A refusal is an answer.
    async fn after_failure(&mut self, error: StoreError) -> Result<()> {
        let asked = self.asked;
        if !error.kind().is_outage() {
            let is_unanswered = self.own.attempt.unanswered;
            return Err(self.refuse(if is_unanswered { error.maybe_executed() } else { error }));
        }
        let so_far = asked.keeper.store.now().saturating_since(asked.started);
        let tries_on = match asked.limit {
            Limit::Try if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) => {
                error.may_have_executed() && so_far < QUORUM_PATIENCE
            }
            Limit::Try => error.may_have_executed() && !is_granted_in_vain(&error),
            Limit::Forever | Limit::Within(_) => true,
        };
        if tries_on && self.retry.is_before(asked.give_up()) {
            asked.report_delayed(&mut self.reported, &error);
            self.retry.pause(&asked.keeper.store, asked.give_up()).await;
            return Ok(());
        }
        let name = asked.name.clone();
        if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) {
            return Err(error.into());
        }
        let may_be_settled = is_granted_in_vain(&error) || !self.own.attempt.unanswered;
        let source = self.reported.cause_of(error);
        if !may_be_settled || !self.own.settle(asked.leave_until()).await {
            return Err(Error::indeterminate(name, asked.options.ttl, source));
        }
        Err(source.into())
    }

    /// A grant came as the answer. It counts if enough of it is left.
    async fn granted(
        &mut self,
        turn: oneshot::Receiver<Turn>,
        token: FencingToken,
        valid_until: Instant,
        now: Instant,
    ) -> Result<Step> {
        let (asked, is_waiter) = (self.asked, self.own.take_is_waiter());
        let attempt = &self.own.attempt;
        let accepted = match asked.keeper.grant(attempt, token, valid_until, is_waiter, now) {
            Some(held) => {
                let is_accepted = held.state.is_delivered()
                    || asked.pulse.is_some() && is_enough(&held, asked.options);
                is_accepted.then_some(held)
            }
            // A message was faster: the keeper has made the lease of it already.
            None => match turn.await {
                Ok(Ok(Step::Held(held))) => self.fetch(held),
                Ok(_) => return Ok(Step::Join),
                Err(_) => {
                    self.own.finish();
                    return self.skipped();
                }
            },
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

    /// A call was skipped. It fails if its client was closed. If it was not polled while it was the
    /// first in line, it joins anew.
    fn skipped(&self) -> Result<Step> {
        self.asked.keeper.ensure_open()?;
        Ok(Step::Join)
    }

    /// Fetches a grant that the keeper has made a lease of, unless it was given back before, or too
    /// little is left of it: then dropping it gives it back.
    fn fetch(&self, held: Held) -> Option<Held> {
        let Asked { options, pulse, .. } = self.asked;
        let is_fetched = is_enough(&held, options)
            && (pulse.is_some() || Held::mark_delivered(std::slice::from_ref(&held)));
        is_fetched.then_some(held)
    }

    /// Waits until the keeper sends its turn, or for the limit.
    async fn wait(&mut self, mut turn: oneshot::Receiver<Turn>) -> Result<Step> {
        let asked = self.asked;
        let turn = match select(&mut turn, asked.at_limit()).await {
            Either::Left((turn, _)) => turn,
            Either::Right(((), _)) => {
                // The last waiter of a name takes with it what is known of that.
                let failure = asked.keeper.poll_failure(asked.name);
                if self.own.take() {
                    return self.leave(failure).await;
                }
                // The call was granted in the same moment.
                turn.await
            }
        };
        match turn {
            Ok(Ok(Step::Ask(mut ask))) => Ok(match self.own.take_over(&mut ask) {
                true => Step::Ask(ask),
                false => Step::Join,
            }),
            Ok(Ok(Step::Held(held))) => {
                self.own.finish();
                match self.fetch(held) {
                    Some(held) => Ok(Step::Held(held)),
                    None if asked.is_over() => Err(asked.timeout(asked.leave_until(), true).await),
                    None => Ok(Step::Join),
                }
            }
            Ok(Ok(step)) => {
                self.own.finish();
                Ok(step)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                self.own.finish();
                self.skipped()
            }
        }
    }

    /// Leaves the queue, with what was in the way as the error: a store that cannot be reached, or
    /// who holds the lock.
    async fn leave(&mut self, failure: Option<StoreError>) -> Result<Step> {
        let until = self.asked.leave_until();
        let left = self.own.cancel_now(until).await;
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        left?;
        Err(self.asked.timeout(until, true).await)
    }

    /// Waits until it is time to poll a store without a queue, but not past the limit.
    async fn wait_to_poll(&mut self, retry_after: Duration, took: Duration) -> Result<()> {
        let (asked, poller) = (self.asked, &mut self.poller);
        let keeper = asked.keeper;
        let waiting = async {
            match poller {
                Some(poller) => poller.wait(&keeper.store, retry_after, took).await,
                None => {
                    // A release before this was published to nobody, so it is polled once more.
                    let name = asked.name;
                    *poller = Some(keeper.poller(name, asked.keeper.jitter()).await);
                }
            }
        };
        match select(pin!(waiting), asked.at_limit()).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(asked.timeout(asked.leave_until(), false).await),
        }
    }
}
