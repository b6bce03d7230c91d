//! Clients that wait for each other, as far as the names that were looked at show it. No name is
//! looked at for this alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{Deadlock, HolderId, Snapshot, deadlocks};

use super::row::Row;

/// Deadlocks are looked for every second, as often as awaited names are looked at.
const SEARCH_MS: u64 = 1_000;

/// What tells one deadlock from another: who waits for what.
type Key = BTreeSet<(LockName, HolderId)>;

/// The deadlocks that were found, and those that are suspected.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Since when each has been suspected.
    suspects: BTreeMap<Key, u64>,
    found: Vec<Deadlock>,
    /// The names in those.
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

    /// Searches, if it is time to. Gives the names that are in a deadlock and were in none before,
    /// or the other way round.
    ///
    /// The looks at the names of a circle are of different times. So it counts only once all of its
    /// names were looked at again, and it is still there. Then it was whole at the moment when it
    /// was suspected.
    pub(super) fn search(
        &mut self,
        rows: &BTreeMap<LockName, Row>,
        now_ms: u64,
    ) -> BTreeSet<LockName> {
        if now_ms < self.searched_ms + SEARCH_MS {
            return BTreeSet::new();
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
        let names = waits.map(|wait| wait.name.clone()).collect();
        let before = std::mem::replace(&mut self.names, names);
        self.names.symmetric_difference(&before).cloned().collect()
    }
}

fn key(deadlock: &Deadlock) -> Key {
    let waits = deadlock.waits.iter();
    waits.map(|wait| (wait.name.clone(), wait.waiter.id)).collect()
}
