//! The way to the store: every answer also tells what time it is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// The newest reply of each shard.
    newest: Mutex<BTreeMap<u64, Sample>>,
}

/// An answer and when its request was sent.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) answer: Answer,
    pub(crate) sent: Instant,
}

impl Contact {
    pub(crate) fn new(store: Box<dyn Store>, clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        Self { store, clock, bounds, newest: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) async fn execute(&self, operation: Operation) -> Result<Timed, StoreError> {
        let asked = match &operation {
            Operation::List { .. } => None,
            Operation::On { name, .. } => Some(name.clone()),
            Operation::Renew(leases) => leases.first().map(|lease| lease.name.clone()),
        };
        let sent = self.now();
        let answer = self.store.execute(operation).await?;
        if let Some(name) = asked {
            let sample = Sample { sent, server_us: answer.now.lease_us };
            // The shard that has answered: the name may just have moved there.
            let mut samples = self.samples();
            let newest = samples.entry(self.store.shard(&name)).or_insert(sample);
            if newest.sent <= sent {
                *newest = sample;
            }
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

    /// Whether the store has ever answered.
    pub(crate) fn is_made(&self) -> bool {
        !self.samples().is_empty()
    }

    /// The newest reply of the shard in which a name lives.
    pub(crate) fn newest(&self, name: &LockName) -> Option<Sample> {
        self.samples().get(&self.store.shard(name)).copied()
    }

    /// The latest store time at which an acquire that is sent now may be executed. What another
    /// shard said is good enough for that, because tombstones are kept much longer than clocks of
    /// one store differ.
    pub(crate) fn not_after_us(&self, name: &LockName) -> u64 {
        let any = || self.samples().values().max_by_key(|sample| sample.sent).copied();
        self.newest(name).or_else(any).map_or(ANY_TIME_US, |newest| {
            let latest = newest.latest_us(self.now(), self.bounds.drift);
            latest.saturating_add(NOT_AFTER.as_micros() as u64).min(ANY_TIME_US)
        })
    }

    fn samples(&self) -> MutexGuard<'_, BTreeMap<u64, Sample>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a grant may be relied on that came in this answer.
    pub(crate) fn valid_until(&self, timed: &Timed, grant: Grant, ttl: Duration) -> Instant {
        let left_us = grant.deadline_us.saturating_sub(timed.answer.now.lease_us);
        self.bounds.valid_until(timed.sent, ttl.min(Duration::from_micros(left_us)))
    }
}
