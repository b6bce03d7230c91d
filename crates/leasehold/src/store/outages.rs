//! Which shards of a store are away, and since when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Instant, StoreError, StoreErrorKind};

use crate::failures::is_no_answer;
use crate::mutex::Mutex;

/// The outages of one store, as its requests find them.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// Since when requests of a shard fail.
    since: Mutex<BTreeMap<u64, Instant>>,
    /// Whether there is one, for the many requests that fail not.
    any: AtomicBool,
}

impl Outages {
    /// A request has failed. Gives how long its shard was away, if this was an answer and the first
    /// since then.
    pub(super) fn failed(
        &self,
        shard: impl FnOnce() -> u64,
        error: &StoreError,
        now: Instant,
    ) -> Option<Duration> {
        match error.kind() {
            // Its sender did not wait for long enough to know.
            StoreErrorKind::Timeout if is_no_answer(error) => None,
            StoreErrorKind::NoQuorum { .. }
            | StoreErrorKind::Timeout
            | StoreErrorKind::Unreachable => {
                self.since.lock().entry(shard()).or_insert(now);
                self.any.store(true, Ordering::Release);
                None
            }
            // A refusal is an answer.
            _ => self.answered(shard, now),
        }
    }

    /// A request was answered. Gives how long its shard was away, if this is the first since then.
    pub(super) fn answered(&self, shard: impl FnOnce() -> u64, now: Instant) -> Option<Duration> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut since = self.since.lock();
        let began = since.remove(&shard())?;
        self.any.store(!since.is_empty(), Ordering::Release);
        Some(now.saturating_since(began))
    }
}
