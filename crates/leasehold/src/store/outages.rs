//! The shards of a store that are away, and since when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Instant, LockName, StoreError, StoreErrorKind};

use super::traits::Store;
use crate::failures::is_no_answer;
use crate::mutex::Mutex;

/// The outages of one store, as found by its requests.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// The present outages, by the shard whose requests fail.
    lasting: Mutex<BTreeMap<u64, Outage>>,
    /// Whether there is an outage, so that most requests need not lock `lasting`.
    any: AtomicBool,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    /// A name of the shard that is away. The server that takes over may be another shard, which
    /// then has this name.
    name: LockName,
}

impl Outages {
    /// Records a failed request for a name. If the error is the first answer since an outage began,
    /// returns how long the shard was away.
    pub(super) fn failed(
        &self,
        store: &dyn Store,
        name: &LockName,
        error: &StoreError,
        now: Instant,
    ) -> Option<Duration> {
        match error.kind() {
            // The sender of the request did not wait for long enough to know whether the shard is
            // away.
            StoreErrorKind::Timeout if is_no_answer(error) => None,
            StoreErrorKind::NoQuorum { .. }
            | StoreErrorKind::Timeout
            | StoreErrorKind::Unreachable => {
                let new = || Outage { since: now, name: name.clone() };
                self.lasting.lock().entry(store.shard(name)).or_insert_with(new);
                self.any.store(true, Ordering::Release);
                None
            }
            // A refusal is an answer.
            _ => self.answered(store, name, now),
        }
    }

    /// Records an answer for a name. If it is the first answer since an outage began, returns how
    /// long the outage lasted: the outage of the name's shard, or of the shard from which that one
    /// has taken over.
    pub(super) fn answered(
        &self,
        store: &dyn Store,
        name: &LockName,
        now: Instant,
    ) -> Option<Duration> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let shard = store.shard(name);
        let mut lasting = self.lasting.lock();
        let mut began: Option<Instant> = None;
        lasting.retain(|_, outage| {
            let has_ended = store.shard(&outage.name) == shard;
            if has_ended {
                began = Some(began.map_or(outage.since, |began| began.min(outage.since)));
            }
            !has_ended
        });
        self.any.store(!lasting.is_empty(), Ordering::Release);
        Some(now.saturating_since(began?))
    }
}
