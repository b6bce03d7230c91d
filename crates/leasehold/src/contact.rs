//! The way to the store: every answer also tells what time it is there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::model::NOT_AFTER;
use leasehold_core::{
    Action, Answer, Bounds, Clock, Grant, Instant, LockName, Operation, Sample, StoreError,
    StoreErrorKind,
};

use crate::store::Store;

/// An acquire whose store's time is not known yet may be executed at any time.
const ANY_TIME_US: u64 = (1 << 53) - 1;

/// A store, the client's clock, and what the one said of its time by the other.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) store: Box<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bounds: Bounds,
    newest: Mutex<Option<Sample>>,
}

/// An answer and when its request was sent.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) answer: Answer,
    pub(crate) sent: Instant,
}

impl Contact {
    pub(crate) fn new(store: Box<dyn Store>, clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        Self { store, clock, bounds, newest: Mutex::new(None) }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) async fn execute(&self, operation: Operation) -> Result<Timed, StoreError> {
        let sent = self.now();
        let answer = self.store.execute(operation).await?;
        let sample = Sample { sent, server_us: answer.now.lease_us };
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.is_none_or(|newest| newest.sent <= sent) {
            *newest = Some(sample);
        }
        Ok(Timed { answer, sent })
    }

    pub(crate) async fn apply(&self, name: &LockName, action: Action) -> Result<Timed, StoreError> {
        self.execute(Operation::On { name: name.clone(), action }).await
    }

    /// The same, but without an answer by `deadline` its outcome is unknown.
    pub(crate) async fn execute_until(
        &self,
        operation: Operation,
        deadline: Instant,
    ) -> Result<Timed, StoreError> {
        let answer = std::pin::pin!(self.execute(operation));
        match select(answer, self.clock.sleep_until(deadline)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                Err(StoreError::new(StoreErrorKind::Timeout, "the store did not answer in time")
                    .maybe_executed())
            }
        }
    }

    /// The newest reply of the store.
    pub(crate) fn newest(&self) -> Option<Sample> {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest store time at which an acquire that is sent now may be executed.
    pub(crate) fn not_after_us(&self) -> u64 {
        self.newest().map_or(ANY_TIME_US, |newest| {
            let latest = newest.latest_us(self.now(), self.bounds.drift);
            latest.saturating_add(NOT_AFTER.as_micros() as u64).min(ANY_TIME_US)
        })
    }

    /// Until when a grant may be relied on that came in this answer.
    pub(crate) fn valid_until(&self, timed: &Timed, grant: Grant, ttl: Duration) -> Instant {
        let left_us = grant.deadline_us.saturating_sub(timed.answer.now.lease_us);
        self.bounds.valid_until(timed.sent, ttl.min(Duration::from_micros(left_us)))
    }
}
