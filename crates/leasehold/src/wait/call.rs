//! A call, from its first request to a lease, to a refusal or to its limit.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::{
    Action, Error, FencingToken, Instant, Operation, Reply, Result, StoreError, StoreErrorKind,
};
use tokio::sync::oneshot;

use super::attempt::{Attempt, Begun, is_granted_in_vain};
use super::progress::{Progress, Reported};
use super::retry::Retry;
use super::{Call, Limit, is_enough};
use crate::keeper::{Delivery, Granted, Held, PendingRelease, Turn, unexpected_reply};
use crate::poll_queue::{self, Poller};
use crate::refusal::refused;
use crate::store::clocked::TimedAnswer;

/// How long a try goes on asking a quorum of which too few nodes answer in time: 500 ms, several
/// rounds of the usual timeout. It is a hiccup or it lasts.
const QUORUM_PATIENCE: Duration = Duration::from_millis(500);

/// What a call does next.
enum Step {
    /// Joins, with a new attempt.
    Begin,
    Ask {
        turn: oneshot::Receiver<Turn>,
        release: Option<PendingRelease>,
        /// Its line has just had a turn.
        yields: bool,
    },
    /// Waits for its turn: in line, or in the store's queue.
    Wait(oneshot::Receiver<Turn>),
    Busy,
    Held(Held),
}

impl Call<'_> {
    pub(super) async fn run(&self) -> Result<Option<Held>> {
        let mut progress =
            Progress { reported: Reported::default(), retry: self.retry(), poller: None };
        let mut now = self.started;
        if !self.keeper.store.has_sample() {
            self.sample_clock(&mut progress.reported).await?;
            now = self.keeper.store.now();
        }
        let mut attempt = Attempt::new(self);
        let mut step = self.begin(&mut attempt, &mut progress, now)?;
        loop {
            step = match step {
                Step::Begin => {
                    attempt.renumber(self);
                    now = self.keeper.store.now();
                    self.begin(&mut attempt, &mut progress, now)?
                }
                Step::Ask { turn, release, yields } => {
                    let release = self.make_way(release, yields).await;
                    self.ask_on(&mut attempt, &mut progress, turn, release, now).await?
                }
                Step::Wait(turn) => {
                    let step = self.wait(&mut attempt, turn).await?;
                    now = self.keeper.store.now();
                    step
                }
                Step::Busy => return Ok(None),
                Step::Held(held) => return Ok(Some(held)),
            }
        }
    }

    /// Joins: asks the store, or stands behind others of its client.
    fn begin(&self, attempt: &mut Attempt, progress: &mut Progress, now: Instant) -> Result<Step> {
        Ok(match attempt.begin(self, now)? {
            Begun::Asks(turn, release) => {
                let yields = release.is_some();
                Step::Ask { turn, release, yields }
            }
            Begun::Behind { turn, ahead, own } => {
                // The first of the line polls.
                progress.poller = None;
                self.report_behind(&mut progress.reported, ahead, own);
                Step::Wait(turn)
            }
            Begun::Busy => Step::Busy,
            Begun::Held(held) => Step::Held(held),
        })
    }

    /// Lets others have their chance where nobody queues: what asks right after it has let go would
    /// always be the first.
    async fn make_way(
        &self,
        release: Option<PendingRelease>,
        yields: bool,
    ) -> Option<PendingRelease> {
        let store = &self.keeper.store;
        if !yields || store.inner.capabilities().queued {
            return release;
        }
        if let Some(release) = release {
            release.send().await;
        }
        poll_queue::make_way(store, &mut self.engine.jitter()).await;
        None
    }

    /// Finds out what time it is at the store, which every acquire must carry.
    async fn sample_clock(&self, reported: &mut Reported) -> Result<()> {
        let mut retry = self.retry();
        loop {
            self.keeper.ensure_open()?;
            let inspect = Operation::On {
                name: self.request.name.clone(),
                action: Action::Inspect { limit: 0 },
            };
            let in_time = retry.is_before(self.give_up);
            match self.ask(inspect, self.keeper.store.now()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind().is_outage() && in_time => {
                    self.report_delayed(reported, &error);
                    retry.pause(&self.keeper.store, self.give_up).await;
                }
                Err(error) => return Err(reported.cause_of(error).into()),
            }
        }
    }

    fn retry(&self) -> Retry {
        Retry::new(self.engine.jitter(), self.started)
    }

    /// Asks until there is an answer.
    async fn ask_on(
        &self,
        attempt: &mut Attempt,
        progress: &mut Progress,
        turn: oneshot::Receiver<Turn>,
        mut release: Option<PendingRelease>,
        mut now: Instant,
    ) -> Result<Step> {
        loop {
            let timed = match self.send(attempt, release.take(), now).await {
                Ok(timed) => timed,
                Err(error) => {
                    self.after_failure(attempt, error, progress).await?;
                    if attempt.shows_life().is_none() {
                        return Ok(Step::Begin);
                    }
                    now = self.keeper.store.now();
                    continue;
                }
            };
            if timed.answer.reply != Reply::Stale {
                progress.retry.reset();
            }
            match timed.answer.reply {
                Reply::Granted(grant) => {
                    let ttl = self.request.options.ttl;
                    let until = self.keeper.store.valid_until(&timed, grant, ttl);
                    return self.granted(attempt, turn, grant.token, until, timed.received).await;
                }
                Reply::Queued(place) => {
                    self.report_queued(&mut progress.reported, &place);
                    self.keeper.joined(attempt.id, place, attempt.unanswered);
                    return Ok(Step::Wait(turn));
                }
                Reply::Busy { .. } if timed.answer.more => {}
                Reply::Busy { .. } if self.limit == Limit::Try => return Ok(Step::Busy),
                Reply::Busy { retry_after } => {
                    self.report_busy(&mut progress.reported);
                    let took = timed.received.saturating_since(timed.sent);
                    self.wait_to_poll(&mut progress.poller, retry_after, took).await?;
                    // A store made of stores may still be ending this one here or there.
                    return Ok(Step::Begin);
                }
                Reply::Late => {}
                Reply::Stale => return Ok(Step::Begin),
                Reply::Refused(refusal) => {
                    let error = refused(self.request.name, self.request.mode, refusal);
                    return Err(self.refuse(attempt, error));
                }
                other => return Err(self.refuse(attempt, unexpected_reply(&other))),
            }
            now = self.keeper.store.now();
        }
    }

    /// Sends a copy of the attempt, after the release of what its line had before.
    async fn send(
        &self,
        attempt: &mut Attempt,
        release: Option<PendingRelease>,
        now: Instant,
    ) -> Result<TimedAnswer, StoreError> {
        let Some(release) = release else { return attempt.send(self, now).await };
        let (released, sent) = (pin!(release.send()), pin!(attempt.send(self, now)));
        match select(released, sent).await {
            Either::Left(((), sent)) => sent.await,
            // Dropping the release leaves it to the keeper.
            Either::Right((answer, _)) => answer,
        }
    }

    /// An answer that no waiting changes ends the call, and those of all who stand in line behind
    /// it.
    fn refuse(&self, attempt: &Attempt, error: StoreError) -> Error {
        self.keeper.fail_line(self.request.name, attempt.ticket, &error);
        error.into()
    }

    /// Decides whether to ask again after no answer, and waits until then. A refusal is an answer.
    async fn after_failure(
        &self,
        attempt: &mut Attempt,
        error: StoreError,
        progress: &mut Progress,
    ) -> Result<()> {
        if !error.kind().is_outage() {
            let error = if attempt.unanswered { error.maybe_executed() } else { error };
            return Err(self.refuse(attempt, error));
        }
        let Progress { reported, retry, .. } = progress;
        let so_far = self.keeper.store.now().saturating_since(self.started);
        let tries_on = match self.limit {
            Limit::Try if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) => {
                error.may_have_executed() && so_far < QUORUM_PATIENCE
            }
            Limit::Try => error.may_have_executed() && !is_granted_in_vain(&error),
            Limit::Forever | Limit::Within(_) => true,
        };
        if tries_on && retry.is_before(self.give_up) {
            self.report_delayed(reported, &error);
            retry.pause(&self.keeper.store, self.give_up).await;
            return Ok(());
        }
        if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) {
            return Err(error.into());
        }
        let may_be_settled = is_granted_in_vain(&error) || !attempt.unanswered;
        let source = reported.cause_of(error);
        if !may_be_settled || !attempt.settle(self.leave_until()).await {
            let (name, settles_within) = (self.request.name.clone(), self.request.options.ttl);
            return Err(Error::indeterminate(name, settles_within, source));
        }
        Err(source.into())
    }

    /// A grant came as the answer. It counts if enough of it is left.
    async fn granted(
        &self,
        attempt: &mut Attempt,
        mut turn: oneshot::Receiver<Turn>,
        token: FencingToken,
        valid_until: Instant,
        now: Instant,
    ) -> Result<Step> {
        let request = self.request;
        let granted = Granted {
            name: request.name.clone(),
            id: attempt.id,
            mode: request.mode,
            options: request.options.clone(),
            unanswered: attempt.unanswered,
            token,
            valid_until,
            confirmed: true,
            delivery: match &request.pulse {
                Some(pulse) => Delivery::Gathered(Arc::clone(pulse)),
                None => Delivery::Done,
            },
            joins: request.joins,
            ticket: attempt.ticket,
        };
        let accepted = match self.keeper.grant(granted, attempt.take_is_waiter(), now) {
            Some(held) => {
                let is_accepted = held.state.is_delivered()
                    || request.pulse.is_some() && is_enough(&held, request.options);
                is_accepted.then_some(held)
            }
            // A message was faster: the keeper has made the lease of it already.
            None => match (&mut turn).await {
                Ok(Turn::Granted(held)) => self.fetch(held),
                Ok(Turn::Gone | Turn::Failed(_) | Turn::Ask(_)) => return Ok(Step::Begin),
                Err(_) => {
                    attempt.finish();
                    return self.skipped();
                }
            },
        };
        attempt.finish();
        if let Some(held) = accepted {
            return Ok(Step::Held(held));
        }
        if self.is_over() {
            let why = "the store answers so slowly that too little of the lease is left";
            return Err(StoreError::new(StoreErrorKind::Timeout, why).into());
        }
        Ok(Step::Begin)
    }

    /// Nobody answers a call any more that was closed, or that was not polled while it was the
    /// first in line: then it joins anew.
    fn skipped(&self) -> Result<Step> {
        self.keeper.ensure_open()?;
        Ok(Step::Begin)
    }

    /// Fetches a grant that the keeper has made a lease of, unless it was given back before, or too
    /// little is left of it: then dropping it gives it back.
    fn fetch(&self, held: Held) -> Option<Held> {
        let is_enough = is_enough(&held, self.request.options);
        let is_gathered = self.request.pulse.is_some();
        let is_fetched =
            is_enough && (is_gathered || Held::mark_delivered(std::slice::from_ref(&held)));
        is_fetched.then_some(held)
    }

    /// Waits until the keeper sends its turn, or for the limit.
    async fn wait(&self, attempt: &mut Attempt, mut turn: oneshot::Receiver<Turn>) -> Result<Step> {
        let turn = match select(&mut turn, self.at_limit()).await {
            Either::Left((turn, _)) => turn,
            Either::Right(((), _)) => {
                // The last waiter of a name takes with it what is known of that.
                let failure = self.keeper.poll_failure(self.request.name);
                if attempt.take() {
                    return self.leave(attempt, failure).await;
                }
                // It was granted in the same moment.
                turn.await
            }
        };
        match turn {
            Ok(Turn::Granted(held)) => {
                attempt.finish();
                match self.fetch(held) {
                    Some(held) => Ok(Step::Held(held)),
                    None if self.is_over() => Err(self.timeout(self.leave_until(), true).await),
                    None => Ok(Step::Begin),
                }
            }
            Ok(Turn::Ask(ask)) => Ok(match attempt.take_over(&ask) {
                Some(release) => Step::Ask { turn: ask.turn, release, yields: ask.yields },
                None => Step::Begin,
            }),
            Ok(Turn::Gone) => {
                attempt.finish();
                Ok(Step::Begin)
            }
            Ok(Turn::Failed(error)) => Err(error.into()),
            Err(_) => {
                attempt.finish();
                self.skipped()
            }
        }
    }

    /// Leaves the queue, with what was in the way as the error: a store that cannot be reached, or
    /// who holds the lock.
    async fn leave(&self, attempt: &mut Attempt, failure: Option<StoreError>) -> Result<Step> {
        let until = self.leave_until();
        let left = attempt.cancel_now(until).await;
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        left?;
        Err(self.timeout(until, true).await)
    }

    /// Waits until it is time to poll a store without a queue, but not past the limit.
    async fn wait_to_poll(
        &self,
        poller: &mut Option<Poller>,
        retry_after: Duration,
        took: Duration,
    ) -> Result<()> {
        let (store, name) = (&self.keeper.store, self.request.name);
        let waiting = async {
            match poller {
                Some(poller) => poller.wait(store, retry_after, took).await,
                None => {
                    // A release before this was published to nobody, so it is polled once more.
                    let queues = &self.engine.poll_queues;
                    *poller = Some(queues.join(store, name, self.engine.jitter()).await);
                }
            }
        };
        match select(pin!(waiting), self.at_limit()).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(self.timeout(self.leave_until(), false).await),
        }
    }
}
