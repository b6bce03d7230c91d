//! A wrapper of a store, which takes a sample of the store's clock from every answer, and reports
//! the requests.
//!
//! Each shard has one sample, its newest. By the sample, a client understands the time in a
//! message, and whether the clock was set since the sample before.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::text::show_duration;
use leasehold_core::{
    Action, Answer, Bounds, Clock, Instant, LockName, Operation, Reply, Sample, Status, StoreError,
    StoreErrorKind,
};

use super::traits::{Store, shard_name};
use crate::clock::within;
use crate::event::{Event, Observers};
use crate::failures::{is_no_answer, no_answer};
use crate::mutex::Mutex;
use crate::replies::unusable_reply;

/// A store's clock counts as set if it steps by more than this, in addition to the time that a
/// request took: 1 s, far above what NTP corrects by slewing.
const STEP: Duration = Duration::from_secs(1);

/// A store, the client's clock, and the newest samples of the store's clocks.
#[derive(Debug)]
pub(crate) struct ClockedStore {
    pub(crate) inner: Box<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bounds: Bounds,
    pub(crate) observers: Observers,
    /// The newest sample of each shard.
    samples: Mutex<BTreeMap<u64, ClockSample>>,
    /// When the present outage began, and a name whose requests failed. The server that takes over
    /// may be another shard, which then has this name.
    outage: Mutex<Option<(Instant, LockName)>>,
}

/// A reading of a store's clock, at some time between two readings of the client's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSample {
    /// The clock by which leases end, when the request was sent.
    pub(crate) lease: Sample,
    pub(crate) received: Instant,
    /// The clock from which tokens are minted.
    pub(crate) token_us: u64,
}

/// An answer and when its request was sent.
#[derive(Clone, Debug)]
pub(crate) struct TimedAnswer {
    pub(crate) answer: Answer,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

/// The outcome of a request.
pub(crate) type Timed = Result<TimedAnswer, StoreError>;

impl ClockedStore {
    pub(crate) fn new(
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        bounds: Bounds,
        observers: Observers,
    ) -> Self {
        let (samples, outage) = (Mutex::default(), Mutex::default());
        Self { inner: store, clock, bounds, observers, samples, outage }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    // ---- requests

    /// Sends an operation at `sent`, and keeps the sample of the store's clock that comes with its
    /// answer. The error is the store's own, and is not reported.
    ///
    /// Here and below, the future does not contain the operation: it would be moved several times.
    pub(crate) fn send(
        &self,
        operation: Operation,
        sent: Instant,
    ) -> impl Future<Output = Timed> + use<'_> {
        let name = shard_name(&operation).cloned();
        let answer = self.inner.execute(operation);
        async move {
            let answer = answer.await?;
            let received = self.now();
            if let Some(name) = name.filter(|_| is_answered(&answer))
                && let Some(now) = answer.now
            {
                let lease = Sample { sent, server_us: now.lease_us };
                let token_us = now.token_us;
                self.keep_sample(&name, ClockSample { lease, received, token_us });
            }
            Ok(TimedAnswer { answer, sent, received })
        }
    }

    /// Like [`send`](Self::send), but the outcome is unknown if no answer comes by `deadline`. A
    /// read that fails counts as not executed, even if the store is not certain of that. Reports
    /// the request, and the end of an outage, to the observers.
    pub(crate) fn execute_at(
        &self,
        operation: Operation,
        sent: Instant,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Timed> + use<'_> {
        let (is_read, asked) = (operation.is_read_only(), operation.as_str());
        let is_batch = matches!(operation, Operation::Keep(_));
        let name = shard_name(&operation).cloned();
        let answer = self.send(operation, sent);
        async move {
            let answer = within(&*self.clock, deadline, pin!(answer)).await;
            let result = answer.unwrap_or_else(|| Err(no_answer()));
            let result = result.map_err(|error| if is_read { error.not_executed() } else { error });
            let ended = result.as_ref().map_or_else(|_| self.now(), |timed| timed.received);
            let error = result.as_ref().err();
            let is_known = result.as_ref().ok().is_none_or(|timed| is_answered(&timed.answer));
            let known = name.as_ref().filter(|_| is_known);
            self.observers.observe(&Event::RoundTrip {
                operation: asked,
                name: name.as_ref().filter(|_| !is_batch),
                took: ended.saturating_since(sent),
                error,
                away: known.and_then(|name| self.end_of_outage(name, error, ended)),
            });
            result
        }
    }

    /// Records the outcome of a request for a name. If this is the first answer since an outage of
    /// the name's shard began, returns how long the outage lasted.
    fn end_of_outage(
        &self,
        name: &LockName,
        error: Option<&StoreError>,
        now: Instant,
    ) -> Option<Duration> {
        let mut outage = self.outage.lock();
        match error.map(|error| (error.kind(), is_no_answer(error))) {
            // The sender of the request did not wait for long enough to know whether the shard is
            // away.
            Some((StoreErrorKind::Timeout, true)) => return None,
            Some((
                StoreErrorKind::NoQuorum { .. }
                | StoreErrorKind::Timeout
                | StoreErrorKind::Unreachable,
                _,
            )) => {
                outage.get_or_insert_with(|| (now, name.clone()));
                return None;
            }
            // A refusal is an answer.
            Some(_) | None => {}
        }
        let is_over = |(_, away): &mut (Instant, LockName)| {
            self.inner.shard(away) == self.inner.shard(name) //
        };
        let (since, _) = outage.take_if(is_over)?;
        Some(now.saturating_since(since))
    }

    /// Sends an operation now.
    pub(crate) fn execute(&self, operation: Operation) -> impl Future<Output = Timed> + use<'_> {
        self.execute_at(operation, self.now(), None)
    }

    /// Sends an action on one name now.
    pub(crate) fn apply(
        &self,
        name: &LockName,
        action: Action,
    ) -> impl Future<Output = Timed> + use<'_> {
        self.execute(Operation::On { name: name.clone(), action })
    }

    /// Inspects a name: its first holders and waiters, at most `limit` of each.
    pub(crate) async fn inspect(
        &self,
        name: &LockName,
        limit: u32,
        deadline: Option<Instant>,
    ) -> Result<Box<Status>, StoreError> {
        let look = Operation::On { name: name.clone(), action: Action::Look { limit } };
        match self.execute_at(look, self.now(), deadline).await?.answer.reply {
            Reply::Status(status) => Ok(status),
            other => Err(unusable_reply(name, &other)),
        }
    }

    // ---- the store's clock

    /// Keeps a sample if it is the newest, and warns if the store's clock was set before it.
    fn keep_sample(&self, name: &LockName, sample: ClockSample) {
        let before = {
            let mut samples = self.samples.lock();
            // The shard is looked up now, because the name may just have moved to it.
            let newest = samples.entry(self.inner.shard(name)).or_insert(sample);
            if newest.lease.sent > sample.lease.sent {
                return;
            }
            std::mem::replace(newest, sample)
        };
        if let Some(text) = before.warning_of_step(sample, self.bounds.drift) {
            self.observers.observe(&Event::Warning { text: &text });
        }
    }

    /// The newest sample of the shard in which a name lives.
    pub(crate) fn newest(&self, name: &LockName) -> Option<ClockSample> {
        self.samples.lock().get(&self.inner.shard(name)).copied()
    }

    /// The newest sample of any shard.
    pub(crate) fn newest_of_all(&self) -> Option<ClockSample> {
        self.samples.lock().values().max_by_key(|sample| sample.lease.sent).copied()
    }

    /// The time until which a lease is valid that this answer has granted or kept for `ttl`.
    pub(crate) fn valid_until(&self, timed: &TimedAnswer, ttl: Duration) -> Instant {
        let from = if bugs::is_on(Bug::ValidityFromReply) { timed.received } else { timed.sent };
        self.bounds.valid_until(from, ttl)
    }
}

impl ClockSample {
    /// A warning, if the store's clock was set between this sample and a newer one: the newer
    /// reading is far from those that the time since then allows.
    fn warning_of_step(self, newer: Self, drift: f64) -> Option<String> {
        let most = newer.received.saturating_since(self.lease.sent).mul_f64(1.0 + drift);
        let least = newer.lease.sent.saturating_since(self.received).mul_f64(1.0 - drift);
        let before = Duration::from_micros(self.lease.server_us);
        let after = Duration::from_micros(newer.lease.server_us);
        let forward = after.saturating_sub(before + most);
        let back = (before + least).saturating_sub(after);
        let (way, by, effect) = match (forward > STEP, back > STEP) {
            (true, _) => (
                "forward",
                forward,
                "leases ended as much earlier, and two may hold one lock for a while",
            ),
            (_, true) => ("back", back, "leases end as much later"),
            (false, false) => return None,
        };
        let by = show_duration(by);
        Some(format!(
            "the store's clock was set {way} by {by}: {effect}: let NTP slew clocks, not set them"
        ))
    }
}

/// Whether the shard of the first name has answered: the reply to a renewal of names of several
/// shards has no outcome for a shard that did not.
fn is_answered(answer: &Answer) -> bool {
    let Reply::Many(replies) = &answer.reply else { return true };
    !matches!(replies.first(), Some(Reply::Busy { .. }))
}

#[cfg(test)]
mod tests;
