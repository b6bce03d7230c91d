//! What has a time to come, in the order of that time.

use std::collections::{BTreeMap, BTreeSet};

use super::id::Id;

/// Values by id, each with a time at which something is to be done with it.
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
    /// The value of an id, and its time.
    pub fn get(&self, id: &Id) -> Option<&(u64, T)> {
        self.values.get(id)
    }

    /// Puts a value in the place of the id's old one.
    pub fn put(&mut self, id: Id, until_us: u64, value: T) {
        self.remove(&id);
        self.times.insert((until_us, id.clone()));
        self.values.insert(id, (until_us, value));
    }

    /// Takes a value out.
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
