//! One acquire call: asks, waits its turn, and leaves nothing behind when it gives up.

mod attempt;
mod call;
mod progress;
mod report;
mod retry;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{
    BoxFuture, Instant, LeaseOptions, LockName, Mode, Operation, Result, StoreError,
};

use crate::engine::Engine;
use crate::keeper::{Held, Keeper, Pulse};
use crate::store::clocked::TimedAnswer;

/// How long a try goes on asking when no answer comes: 2 s, four requests of the default timeout.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// How much longer than its limit a call may take to leave the queue properly: one request.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Forever,
    Try,
    Within(Duration),
}

/// What a call asks for.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) name: &'a LockName,
    pub(crate) mode: Mode,
    pub(crate) options: &'a LeaseOptions,
    /// That of the call, if it gathers several names: it delivers them together.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// Others of its client may pass the lease on to it, and it to them.
    pub(crate) joins: bool,
}

/// One acquire call under way.
struct Call<'a> {
    engine: &'a Engine,
    keeper: &'a Arc<Keeper>,
    request: &'a Request<'a>,
    limit: Limit,
    started: Instant,
    give_up: Option<Instant>,
}

/// Acquires, from `started` on, or gives `None` if it is busy and the limit is a try.
pub(crate) async fn acquire(
    engine: &Engine,
    request: &Request<'_>,
    limit: Limit,
    started: Instant,
) -> Result<Option<Held>> {
    // A call that has no time to wait does not queue: whoever came after it would wait for it.
    let does_not_wait = limit == Limit::Within(Duration::ZERO);
    let limit = if does_not_wait { Limit::Try } else { limit };
    let give_up = match limit {
        Limit::Forever => None,
        Limit::Try => Some(started + TRY_PATIENCE),
        Limit::Within(span) => Some(started + span),
    };
    let call = Call { engine, keeper: &engine.keeper, request, limit, started, give_up };
    let run = pin!(call.run());
    let outcome = match limit {
        Limit::Try => run.await,
        Limit::Forever | Limit::Within(_) => {
            match select(run, pin!(call.report_own_process())).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right((never, _)) => match never {},
            }
        }
    };
    match outcome? {
        None if does_not_wait => {
            let until = call.keeper.store.now() + LEAVE_PATIENCE;
            Err(call.timeout(until, false).await)
        }
        outcome => Ok(outcome),
    }
}

/// Whether so much is left of a lease that it counts.
pub(crate) fn is_enough(held: &Held, options: &LeaseOptions) -> bool {
    let (signal, now) = (&held.state.signal, held.keeper.store.now());
    let left = signal.valid_until().saturating_since(now);
    let is_unchecked = bugs::is_on(Bug::NoCheckAfterReply) || bugs::is_on(Bug::LocalHandOffTooLate);
    signal.check_at(now).is_none() && (left > options.least_validity() || is_unchecked)
}

impl Call<'_> {
    /// Asks the store, for little longer than the limit: an answer that is under way is worth
    /// more than none.
    async fn ask(&self, operation: Operation, sent: Instant) -> Result<TimedAnswer, StoreError> {
        let until = self.give_up.map(|limit| limit + LEAVE_PATIENCE);
        self.keeper.store.execute_at(operation, sent, until).await
    }

    fn is_over(&self) -> bool {
        self.give_up.is_some_and(|limit| self.keeper.store.now() >= limit)
    }

    /// How long a last request may take: a cancel, or the question who holds the lock.
    fn leave_until(&self) -> Instant {
        self.keeper.store.now() + LEAVE_PATIENCE
    }

    /// Ends when the call's limit is reached.
    fn at_limit(&self) -> BoxFuture<'static, ()> {
        match self.give_up {
            Some(limit) => self.keeper.store.clock.sleep_until(limit),
            None => Box::pin(std::future::pending()),
        }
    }
}
