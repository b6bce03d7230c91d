//! When a request that failed is sent again.

use std::time::Duration;

use leasehold_core::Instant;
use leasehold_core::backoff::{Backoff, Jitter};

use crate::store::clocked::ClockedStore;

/// The first and the longest delay before a request that failed is sent again. A random part of up
/// to a half is subtracted: callers that wait for the same store must not all come back at the same
/// time.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The retries of a call, across all its attempts: each failure makes the next delay longer, until
/// the store answers.
pub(super) struct Retry {
    backoff: Backoff,
    jitter: Jitter,
    at: Instant,
}

impl Retry {
    /// The state before the first request.
    pub(super) fn new(jitter: Jitter, now: Instant) -> Self {
        let (first, longest) = RETRY_BACKOFF;
        Self { backoff: Backoff::new(first, longest), jitter, at: now }
    }

    /// Resets the delay, because the store has answered.
    pub(super) fn reset(&mut self) {
        self.backoff.reset();
    }

    /// Whether the next try is before the limit.
    pub(super) fn is_before(&self, limit: Option<Instant>) -> bool {
        limit.is_none_or(|limit| self.at < limit)
    }

    /// Pauses, but not past the limit of the call: the last try is made at the limit, and its
    /// failure says what was in the way at the end.
    pub(super) async fn pause(&mut self, store: &ClockedStore, limit: Option<Instant>) {
        let delay = self.backoff.next_delay(&mut self.jitter);
        let delay = self.jitter.between(delay / 2, delay);
        let at = store.now() + delay;
        self.at = limit.map_or(at, |limit| at.min(limit));
        store.clock.sleep_until(self.at).await;
    }
}
