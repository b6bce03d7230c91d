//! Values with a due time, in the order of that time.

use std::collections::{BTreeMap, BTreeSet};

use super::id::Id;

/// Values by id, each with the time at which it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<T> {
    values: BTreeMap<Id, (u64, T)>,
    times: BTreeSet<(u64, Id)>,
}

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), times: BTreeSet::new() }
    }
}

impl<T> Due<T> {
    /// The due time and the value of an id.
    pub fn get(&self, id: &Id) -> Option<&(u64, T)> {
        self.values.get(id)
    }

    /// Sets the value of an id, and replaces its old one.
    pub fn put(&mut self, id: Id, until_us: u64, value: T) {
        self.remove(&id);
        self.times.insert((until_us, id.clone()));
        self.values.insert(id, (until_us, value));
    }

    /// Removes a value.
    pub fn remove(&mut self, id: &Id) -> Option<(u64, T)> {
        let (until_us, value) = self.values.remove(id)?;
        self.times.remove(&(until_us, id.clone()));
        Some((until_us, value))
    }

    /// Whether the time of this id has come.
    pub fn is_due(&self, id: &Id, now_us: u64) -> bool {
        self.get(id).is_some_and(|(until_us, _)| *until_us <= now_us)
    }

    /// The ids whose time has come, the earliest first, at most `limit`.
    pub fn due(&self, now_us: u64, limit: usize) -> Vec<Id> {
        let due = self.times.iter().take_while(|(until_us, _)| *until_us <= now_us);
        due.take(limit).map(|(_, id)| id.clone()).collect()
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &(u64, T))> {
        self.values.iter()
    }
}
