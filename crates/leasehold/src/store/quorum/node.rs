//! One node: a store, what time it is there, and whether it answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::model::NOT_AFTER;
use leasehold_core::{
    Answer, Bounds, Clock, Instant, Now, Operation, Sample, StoreError, StoreErrorKind,
};

use super::super::Store;

/// A node that has answered nothing for so long is asked one thing at a time until it does: 1 s.
/// Else a node behind a firewall that swallows everything would collect, of each acquire, a request
/// and the cancel that must follow it.
const SILENCE: Duration = Duration::from_secs(1);

/// A store among others.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) store: Box<dyn Store>,
    state: Mutex<State>,
    /// A silent node is being asked.
    probing: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// What time it was there, by its newest answer.
    seen: Option<Seen>,
    /// When the first request was sent of those that had no answer since the last answer.
    silent_since: Option<Instant>,
}

/// What time it was at a node, some time between these two here.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent: Instant,
    heard: Instant,
    now: Now,
}

/// An answer and when its request was sent.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) answer: Answer,
    pub(super) sent: Instant,
}

/// Ends a probe.
struct Probe<'a>(Option<&'a AtomicBool>);

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if let Some(probing) = self.0 {
            probing.store(false, Ordering::Release);
        }
    }
}

impl Node {
    pub(super) fn new(store: Box<dyn Store>) -> Self {
        Self { store, state: Mutex::default(), probing: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, for as long as the caller polls.
    pub(super) async fn ask(
        &self,
        clock: &dyn Clock,
        operation: Operation,
    ) -> Result<Told, StoreError> {
        let sent = clock.now();
        let _probe = self.admit(sent)?;
        let answer = self.store.execute(operation).await?;
        let mut state = self.state();
        state.silent_since = None;
        if state.seen.is_none_or(|newest| newest.sent <= sent) {
            state.seen = Some(Seen { sent, heard: clock.now(), now: answer.now });
        }
        Ok(Told { answer, sent })
    }

    fn admit(&self, now: Instant) -> Result<Probe<'_>, StoreError> {
        let silence = self.state().silent_since.map(|since| now.saturating_since(since));
        match silence {
            Some(silence) if silence >= SILENCE => {
                if self.probing.swap(true, Ordering::AcqRel) {
                    let why = format!("it has not answered for {silence:.1?}");
                    return Err(StoreError::new(StoreErrorKind::Unreachable, why));
                }
                Ok(Probe(Some(&self.probing)))
            }
            Some(_) | None => Ok(Probe(None)),
        }
    }

    /// A request that was sent at `sent` had no answer in time.
    pub(super) fn did_not_answer(&self, sent: Instant) {
        self.state().silent_since.get_or_insert(sent);
    }

    /// Whether it is known what time it is there.
    pub(super) fn is_known(&self) -> bool {
        self.state().seen.is_some()
    }

    /// The token time there at `now`, at the least.
    pub(super) fn token_us(&self, now: Instant) -> Option<u64> {
        let seen = self.state().seen?;
        Some(seen.now.token_us.saturating_add(micros(now.saturating_since(seen.heard))))
    }

    /// The latest time there at which a request may be executed that is sent at `now` and counts
    /// for `span`, but no longer than any request does.
    pub(super) fn not_after_us(&self, now: Instant, span: Duration) -> Option<u64> {
        let seen = self.state().seen?;
        let sample = Sample { sent: seen.sent, server_us: seen.now.lease_us };
        let latest_us = sample.latest_us(now, Bounds::default().drift);
        Some(latest_us.saturating_add(micros(span.min(NOT_AFTER))))
    }
}

/// Whole microseconds of a span.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
