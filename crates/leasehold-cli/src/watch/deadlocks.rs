//! Finds clients that wait for each other, among the names that were looked at anyway. This search
//! looks at no further names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{Deadlock, HolderId, Snapshot, deadlocks};

use super::row::Row;

/// Deadlocks are looked for every second, as often as awaited names are looked at.
const SEARCH_MS: u64 = 1_000;

/// The identity of a deadlock: the waiters, and the names for which they wait.
type Key = BTreeSet<(LockName, HolderId)>;

/// The deadlocks that were found, and those that are suspected.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Each suspected deadlock, and since when it has been suspected.
    suspects: BTreeMap<Key, u64>,
    found: Vec<Deadlock>,
    /// The names in these deadlocks.
    names: BTreeSet<LockName>,
    searched_ms: u64,
}

impl Search {
    pub(super) fn found(&self) -> &[Deadlock] {
        &self.found
    }

    pub(super) fn has(&self, name: &LockName) -> bool {
        self.names.contains(name)
    }

    /// Searches, if a search is due.
    ///
    /// The looks at the names of a circle are not simultaneous. So a circle counts only if it is
    /// still there after all its names were looked at again. Then the whole circle existed when it
    /// was suspected.
    pub(super) fn search(&mut self, rows: &BTreeMap<LockName, Row>, now_ms: u64) {
        if now_ms < self.searched_ms + SEARCH_MS {
            return;
        }
        self.searched_ms = now_ms;
        let awaited = rows.iter().filter(|(_, row)| !row.status.waiters.is_empty());
        let snapshots = awaited.map(|(name, row)| Snapshot {
            name,
            status: &row.status,
            age: Duration::from_millis(now_ms.saturating_sub(row.seen_ms)),
        });
        let all = deadlocks(&snapshots.collect::<Vec<_>>());
        let mut before = std::mem::take(&mut self.suspects);
        self.found.clear();
        for deadlock in all {
            let key = key(&deadlock);
            let since_ms = before.remove(&key).unwrap_or(now_ms);
            let mut names = deadlock.waits.iter().map(|wait| &wait.name);
            if names.all(|name| rows.get(name).is_some_and(|row| row.seen_ms > since_ms)) {
                self.found.push(deadlock);
            }
            self.suspects.insert(key, since_ms);
        }
        let waits = self.found.iter().flat_map(|deadlock| &deadlock.waits);
        self.names = waits.map(|wait| wait.name.clone()).collect();
    }
}

fn key(deadlock: &Deadlock) -> Key {
    let waits = deadlock.waits.iter();
    waits.map(|wait| (wait.name.clone(), wait.waiter.id)).collect()
}
