//! One acquire call: asks, waits its turn, and leaves nothing behind when it gives up.

mod told;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{
    Acquire, Action, BoxFuture, Error, HolderId, Instant, LeaseOptions, LockName, Mode, Operation,
    Reply, Result, StoreError, StoreErrorKind,
};
use tokio::sync::oneshot;

use self::told::Told;
use crate::engine::Engine;
use crate::keeper::{Delivery, Granted, Held, Keeper, Pulse, Turn, Waiter, unexpected};
use crate::poll_queue::Poller;
use crate::refusal::refused;
use crate::store::clocked::TimedAnswer;

/// How long a try goes on asking when no answer comes: 2 s, four requests of the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// How long a try goes on asking a quorum of which too few nodes answer in time: 500 ms, several
/// rounds of the usual timeout. It is a hiccup or it lasts.
const QUORUM_PATIENCE: Duration = Duration::from_millis(500);

/// How much longer than its limit a call may take to leave the queue properly: one request.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// First and longest delay before a request that failed is sent again, of which a random part is
/// taken off, up to a half: who waits for the same store must not come back all at once.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Forever,
    Try,
    Within(Duration),
}

/// What a call asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) name: LockName,
    pub(crate) mode: Mode,
    pub(crate) options: LeaseOptions,
    /// That of the call, if it gathers several names: it delivers them together.
    pub(crate) pulse: Option<Arc<Pulse>>,
}

/// Acquires, or gives `None` if it is busy and the limit is a try.
pub(crate) async fn acquire(engine: &Engine, asked: &Asked, limit: Limit) -> Result<Option<Held>> {
    let started = engine.keeper.store.now();
    // Who has no time to wait does not stand in line: whoever came after him would wait for him.
    let does_not_wait = limit == Limit::Within(Duration::ZERO);
    let limit = if does_not_wait { Limit::Try } else { limit };
    let give_up = match limit {
        Limit::Forever => None,
        Limit::Try => Some(started + TRY_PATIENCE),
        Limit::Within(span) => Some(started + span),
    };
    let call = Call { engine, keeper: &engine.keeper, asked, limit, started, give_up };
    match call.run().await? {
        None if does_not_wait => {
            let until = call.keeper.store.now() + LEAVE_PATIENCE;
            Err(call.timeout(until, false).await)
        }
        outcome => Ok(outcome),
    }
}

/// Whether so much is left of a lease that it counts.
pub(crate) fn is_enough(held: &Held, options: &LeaseOptions) -> bool {
    let signal = &held.state.signal;
    let left = signal.valid_until().saturating_since(held.keeper.store.now());
    signal.check().is_none() && left > options.least_validity()
}

/// One acquire call under way.
struct Call<'a> {
    engine: &'a Engine,
    keeper: &'a Arc<Keeper>,
    asked: &'a Asked,
    limit: Limit,
    started: Instant,
    give_up: Option<Instant>,
}

/// What came of one attempt.
enum Outcome {
    /// Join again, with a new number.
    Again,
    Busy,
    Held(Held),
}

impl Call<'_> {
    async fn run(&self) -> Result<Option<Held>> {
        self.keeper.ensure_running()?;
        let mut told = Told::default();
        if !self.keeper.store.has_sample() {
            self.first_contact(&mut told).await?;
        }
        if self.limit != Limit::Try {
            let open = std::pin::pin!(self.keeper.open_inbox());
            // Without messages one still waits by asking, so not having them ends nothing.
            select(open, self.at_limit()).await;
        }
        let (mut standing, mut retry) = (None, self.retry());
        loop {
            if self.keeper.is_closed() {
                return Err(Error::Closed);
            }
            match self.attempt(&mut standing, &mut retry, &mut told).await? {
                Outcome::Again => {}
                Outcome::Busy => return Ok(None),
                Outcome::Held(held) => return Ok(Some(held)),
            }
        }
    }

    /// Finds out what time it is at the store, which every acquire must carry.
    async fn first_contact(&self, told: &mut Told) -> Result<()> {
        let mut retry = self.retry();
        loop {
            if self.keeper.is_closed() {
                return Err(Error::Closed);
            }
            let look = Operation::On {
                name: self.asked.name.clone(),
                action: Action::Inspect { limit: 0 },
            };
            let in_time = self.give_up.is_none_or(|limit| retry.is_before(limit));
            match self.ask(look).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind().is_outage() && in_time => {
                    if self.limit != Limit::Try {
                        self.tell_delayed(told, &error);
                    }
                    retry.pause(self.keeper, self.give_up).await;
                }
                Err(error) => return Err(told.cause_of(error).into()),
            }
        }
    }

    /// Asks the store, for little longer than the limit: an answer that is under way says more than
    /// none.
    async fn ask(&self, operation: Operation) -> Result<TimedAnswer, StoreError> {
        let store = &self.keeper.store;
        match self.give_up {
            Some(limit) => store.execute_until(operation, limit + LEAVE_PATIENCE).await,
            None => store.execute(operation).await,
        }
    }

    fn retry(&self) -> Retry {
        let (first, longest) = RETRY_BACKOFF;
        let jitter = self.engine.jitter();
        Retry { backoff: Backoff::new(first, longest), jitter, at: self.started }
    }

    async fn attempt(
        &self,
        standing: &mut Option<Poller>,
        retry: &mut Retry,
        told: &mut Told,
    ) -> Result<Outcome> {
        let (mut attempt, mut turn) = Attempt::new(self);
        loop {
            let timed = match attempt.send(self).await {
                Ok(timed) => timed,
                Err(error) => {
                    self.after_failure(&mut attempt, error, retry, told).await?;
                    continue;
                }
            };
            if timed.answer.reply != Reply::Stale {
                retry.backoff.reset();
            }
            match timed.answer.reply {
                Reply::Granted(grant) => {
                    let until =
                        self.keeper.store.valid_until(&timed, grant, self.asked.options.ttl);
                    return self.granted(attempt, turn, grant.token, until).await;
                }
                Reply::Queued(place) => {
                    self.tell_queued(told, &place);
                    self.keeper.joined(attempt.id, place, attempt.unanswered);
                    return self.wait(attempt, &mut turn).await;
                }
                Reply::Busy { .. } if timed.answer.more => {}
                Reply::Busy { .. } if self.limit == Limit::Try => return Ok(Outcome::Busy),
                Reply::Busy { retry_after } => {
                    self.tell_busy(told);
                    let took = self.keeper.store.now().saturating_since(timed.sent);
                    self.wait_in_line(standing, retry_after, took).await?;
                    // A store made of stores may still be ending this one here or there.
                    return Ok(Outcome::Again);
                }
                Reply::Late => {}
                Reply::Stale => return Ok(Outcome::Again),
                Reply::Refused(refusal) => {
                    return Err(refused(&self.asked.name, self.asked.mode, refusal).into());
                }
                other => return Err(unexpected(&other).into()),
            }
        }
    }

    /// Decides whether to ask again after no answer, and waits until then. A refusal is an answer.
    async fn after_failure(
        &self,
        attempt: &mut Attempt,
        error: StoreError,
        retry: &mut Retry,
        told: &mut Told,
    ) -> Result<()> {
        if !error.kind().is_outage() {
            let error = if attempt.unanswered { error.maybe_executed() } else { error };
            return Err(error.into());
        }
        let so_far = self.keeper.store.now().saturating_since(self.started);
        let tries_on = match self.limit {
            Limit::Try if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) => {
                error.may_have_executed() && so_far < QUORUM_PATIENCE
            }
            Limit::Try => error.may_have_executed() && !is_granted_in_vain(&error),
            Limit::Forever | Limit::Within(_) => true,
        };
        let in_time = self.give_up.is_none_or(|limit| retry.is_before(limit));
        if tries_on && in_time {
            if self.limit != Limit::Try {
                self.tell_delayed(told, &error);
            }
            retry.pause(self.keeper, self.give_up).await;
            return Ok(());
        }
        if let StoreErrorKind::NoQuorum { granted, needed, nodes } = error.kind() {
            return Err(Error::no_quorum(self.asked.name.clone(), granted, needed, nodes));
        }
        let may_be_settled = is_granted_in_vain(&error) || !attempt.unanswered;
        let source = told.cause_of(error);
        if !may_be_settled || !self.settle(attempt).await {
            let (name, settles_within) = (self.asked.name.clone(), self.asked.options.ttl);
            return Err(Error::indeterminate(name, settles_within, source));
        }
        Err(source.into())
    }

    /// A grant came as the answer. It counts if enough of it is left.
    async fn granted(
        &self,
        mut attempt: Attempt,
        mut turn: oneshot::Receiver<Turn>,
        token: leasehold_core::FencingToken,
        valid_until: Instant,
    ) -> Result<Outcome> {
        let held = match attempt.take() {
            true => self.keeper.hold(Granted {
                name: self.asked.name.clone(),
                id: attempt.id,
                mode: self.asked.mode,
                options: self.asked.options.clone(),
                unanswered: attempt.unanswered,
                token,
                valid_until,
                confirmed: true,
                asked_at: self.started,
                delivery: match &self.asked.pulse {
                    Some(pulse) => Delivery::Gathered(Arc::clone(pulse)),
                    None => Delivery::Done,
                },
            }),
            // A message was faster: the keeper has made the lease of it already.
            false => match (&mut turn).await {
                Ok(Turn::Granted(held)) => held,
                Ok(Turn::Gone | Turn::Failed(_)) => return Ok(Outcome::Again),
                Err(_) => return Err(Error::Closed),
            },
        };
        attempt.finish();
        if let Some(held) = self.accept(held) {
            return Ok(Outcome::Held(held));
        }
        if self.is_over() {
            let why = "the store answers so slowly that too little of the lease is left";
            return Err(StoreError::new(StoreErrorKind::Timeout, why).into());
        }
        Ok(Outcome::Again)
    }

    /// Fetches a grant, unless it was given back before, or too little is left of it: then dropping
    /// it gives it back.
    fn accept(&self, held: Held) -> Option<Held> {
        let is_enough = is_enough(&held, &self.asked.options);
        let is_gathered = self.asked.pulse.is_some();
        let is_fetched = is_enough && (is_gathered || Held::deliver(std::slice::from_ref(&held)));
        is_fetched.then_some(held)
    }

    fn is_over(&self) -> bool {
        self.give_up.is_some_and(|limit| self.keeper.store.now() >= limit)
    }

    /// Waits for the keeper's word, or for the limit.
    async fn wait(
        &self,
        mut attempt: Attempt,
        turn: &mut oneshot::Receiver<Turn>,
    ) -> Result<Outcome> {
        let told = match select(&mut *turn, self.at_limit()).await {
            Either::Left((told, _)) => told,
            Either::Right(((), _)) => {
                // The last waiter of a name takes with it what is known of that.
                let trouble = self.keeper.trouble(&self.asked.name);
                if attempt.take() {
                    return self.leave(attempt, trouble).await;
                }
                // It was granted in the same moment.
                turn.await
            }
        };
        match told {
            Ok(Turn::Granted(held)) => {
                attempt.finish();
                match self.accept(held) {
                    Some(held) => Ok(Outcome::Held(held)),
                    None if self.is_over() => {
                        let until = self.keeper.store.now() + LEAVE_PATIENCE;
                        Err(self.timeout(until, true).await)
                    }
                    None => Ok(Outcome::Again),
                }
            }
            Ok(Turn::Gone) => {
                attempt.is_gone();
                Ok(Outcome::Again)
            }
            Ok(Turn::Failed(error)) => Err(error.into()),
            Err(_) => Err(Error::Closed),
        }
    }

    /// Leaves the queue, and says what was in the way: trouble with the store, or who holds the
    /// lock.
    async fn leave(&self, mut attempt: Attempt, trouble: Option<StoreError>) -> Result<Outcome> {
        let until = self.keeper.store.now() + LEAVE_PATIENCE;
        let left = self.cancel(&mut attempt).await;
        if let Some(trouble) = trouble {
            return Err(trouble.into());
        }
        left?;
        Err(self.timeout(until, true).await)
    }

    /// Ends an attempt of which the last copy was answered; whether it is certain that nothing of
    /// it is left.
    async fn settle(&self, attempt: &mut Attempt) -> bool {
        // Where a message was faster, the lease that the keeper has made of it is dropped.
        !attempt.known || !attempt.take() || self.cancel(attempt).await.is_ok()
    }

    /// Ends an attempt that was taken from the keeper, so that no answer to it counts any more.
    /// Where this fails, dropping the attempt leaves it to the keeper.
    async fn cancel(&self, attempt: &mut Attempt) -> Result<(), StoreError> {
        let until = self.keeper.store.now() + LEAVE_PATIENCE;
        let cancel = Operation::On { name: self.asked.name.clone(), action: attempt.cancel() };
        self.keeper.store.execute_until(cancel, until).await?;
        attempt.finish();
        Ok(())
    }

    /// Ends when the call's limit is reached.
    fn at_limit(&self) -> BoxFuture<'static, ()> {
        match self.give_up {
            Some(limit) => self.keeper.store.clock.sleep_until(limit),
            None => Box::pin(std::future::pending()),
        }
    }

    /// Waits where there is no queue, but not past the limit.
    async fn wait_in_line(
        &self,
        standing: &mut Option<Poller>,
        retry_after: Duration,
        took: Duration,
    ) -> Result<()> {
        let (store, name) = (&self.keeper.store, &self.asked.name);
        let waiting = async {
            match standing {
                Some(standing) => standing.wait(store, retry_after, took).await,
                None => {
                    // A release before this was published to nobody, so it is polled once more.
                    let queues = &self.engine.poll_queues;
                    *standing = Some(queues.join(store, name, self.engine.jitter()).await);
                }
            }
        };
        match select(std::pin::pin!(waiting), self.at_limit()).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => {
                let until = store.now() + LEAVE_PATIENCE;
                Err(self.timeout(until, false).await)
            }
        }
    }
}

/// When to ask again after a failure. It belongs to the call, not to one attempt: each that fails
/// makes the next one wait longer, until the store answers.
struct Retry {
    backoff: Backoff,
    jitter: Jitter,
    at: Instant,
}

impl Retry {
    /// Whether the next try lies before the limit.
    fn is_before(&self, limit: Instant) -> bool {
        self.at < limit
    }

    /// Pauses, but not past the limit of the call: the last try is made there, and its failure says
    /// what stood in the way at the end.
    async fn pause(&mut self, keeper: &Keeper, limit: Option<Instant>) {
        let delay = self.backoff.next_delay(&mut self.jitter);
        let delay = self.jitter.between(delay / 2, delay);
        let at = keeper.store.now() + delay;
        self.at = limit.map_or(at, |limit| at.min(limit));
        keeper.store.clock.sleep_until(self.at).await;
    }
}

/// An attempt that has been sent or is about to be. Dropping it before it has ended has the keeper
/// cancel it, so that a dropped future leaves nothing behind.
struct Attempt {
    keeper: Arc<Keeper>,
    name: LockName,
    ttl: Duration,
    id: HolderId,
    nonce: u64,
    /// The keeper knows it as a waiter.
    listed: bool,
    /// The store may know it, so it must be cancelled unless somebody else looks after it.
    known: bool,
    /// Some copy was never answered.
    unanswered: bool,
    /// A copy is on its way.
    in_flight: bool,
}

impl Attempt {
    /// Makes an attempt. One that may wait is made known to the keeper before it is sent, because
    /// its grant may arrive before the answer that it was queued.
    fn new(call: &Call<'_>) -> (Self, oneshot::Receiver<Turn>) {
        let (id, nonce) = call.engine.next_attempt();
        let (sender, turn) = oneshot::channel();
        let listed = call.limit != Limit::Try;
        if listed {
            call.keeper.add_waiter(Waiter::new(
                (call.asked.name.clone(), id, nonce),
                (call.asked.mode, call.asked.options.clone()),
                call.started,
                sender,
                call.asked.pulse.clone(),
            ));
        }
        let attempt = Self {
            keeper: Arc::clone(call.keeper),
            name: call.asked.name.clone(),
            ttl: call.asked.options.ttl,
            id,
            nonce,
            listed,
            known: false,
            unanswered: false,
            in_flight: false,
        };
        (attempt, turn)
    }

    async fn send(&mut self, call: &Call<'_>) -> Result<TimedAnswer, StoreError> {
        let request = Acquire::new(self.id, call.asked.mode, call.asked.options.ttl)
            .with_wait(call.limit != Limit::Try)
            .with_nonce(self.nonce)
            .with_not_after(self.keeper.store.not_after_us(&self.name))
            .with_facts(call.engine.facts(call.asked.options.label.clone()));
        let was_known = std::mem::replace(&mut self.known, true);
        self.in_flight = true;
        let operation = Operation::On { name: self.name.clone(), action: Action::Acquire(request) };
        let result = call.ask(operation).await;
        self.in_flight = false;
        let (is_unanswered, may_be_known) = match &result {
            Ok(timed) => {
                (false, matches!(timed.answer.reply, Reply::Granted(_) | Reply::Queued(_)))
            }
            Err(error) => {
                let may_be_known = error.may_have_executed();
                (may_be_known && !is_granted_in_vain(error), was_known || may_be_known)
            }
        };
        self.unanswered |= is_unanswered;
        self.known = self.unanswered || may_be_known;
        result
    }

    /// Takes it from the keeper; false if the keeper has decided its fate already.
    fn take(&mut self) -> bool {
        !std::mem::take(&mut self.listed) || self.keeper.take_waiter(self.id).is_some()
    }

    fn cancel(&self) -> Action {
        Action::Cancel { id: self.id, unanswered: self.unanswered || self.in_flight }
    }

    /// Nothing of it is left at the store, or somebody else looks after it.
    fn finish(&mut self) {
        self.known = false;
    }

    /// The store does not know it, but a late copy may still arrive.
    fn is_gone(&mut self) {
        self.known = self.unanswered;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // If the keeper has made a lease of it, that lease lies in the dropped channel, and
        // dropping it has released it.
        let undecided = self.take();
        if undecided && self.known {
            self.keeper.clean(self.name.clone(), self.cancel(), self.ttl);
        }
    }
}

/// Whether the store has granted it and does not vouch for it: replicas that must have it did not
/// say so, or it may have forgotten an earlier holder. It answers the same attempt again, and keeps
/// what it granted until the attempt is cancelled.
fn is_granted_in_vain(error: &StoreError) -> bool {
    error.may_have_executed()
        && matches!(error.kind(), StoreErrorKind::NotReplicated | StoreErrorKind::Quarantined)
}
