//! Keys in the order in which they are due.

use std::collections::BTreeSet;

use leasehold_core::Instant;

#[derive(Debug)]
pub(super) struct DueQueue<K>(BTreeSet<(Instant, K)>);

impl<K: Ord> DueQueue<K> {
    pub(super) fn new() -> Self {
        Self(BTreeSet::new())
    }

    pub(super) fn insert(&mut self, at: Instant, key: K) {
        self.0.insert((at, key));
    }

    pub(super) fn remove(&mut self, at: Instant, key: K) {
        self.0.remove(&(at, key));
    }

    /// The time at which the first key is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes out the keys that are due at `now` or before, the earliest first.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<K> {
        let mut due = Vec::new();
        while self.first().is_some_and(|at| at <= now) {
            due.extend(self.0.pop_first().map(|(_, key)| key));
        }
        due
    }
}
