//! Where the rows of a record are: an ordered map for each kind.
//!
//! A step asks for the few rows that it needs, by their keys. So a name with ten thousand waiters
//! costs a step what one with ten does, in memory and where each row is read from a disk.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::rows::{Hold, Seen, Waiting};
use crate::holder::{ClientId, HolderId};

/// The rows of one kind of one record, in the order of their keys.
///
/// Nothing here fails. A store that cannot read a row says that it is not there, remembers why, and
/// discards the step.
pub trait Table<K, V> {
    /// How many rows there are.
    fn count(&self) -> u32;

    /// The row of a key.
    fn find(&mut self, key: K) -> Option<&mut V>;

    /// Adds a row, or replaces the one that has the key.
    fn put(&mut self, key: K, row: V);

    /// Removes a row.
    fn take(&mut self, key: K) -> Option<V>;

    /// The lowest key from this one on.
    fn next(&mut self, from: K) -> Option<K>;

    /// The highest key below this one.
    fn previous(&mut self, below: K) -> Option<K>;
}

/// The holds: their slots are the numbers below their count.
pub trait Holds {
    /// How many there are.
    fn count(&self) -> u32;

    /// The hold at a slot; something, if the store cannot read it.
    fn at(&mut self, slot: u32) -> &mut Hold;

    /// Adds one at the end.
    fn push(&mut self, hold: Hold);

    /// Removes the last one.
    fn pop(&mut self) -> Option<Hold>;
}

/// The tables of a record.
pub trait Tables {
    /// The holds, by their slots.
    type Holds: Holds;
    /// The slot of the hold of each attempt.
    type Slots: Table<HolderId, u32>;
    /// The waiters, by the numbers drawn on joining.
    type Queue: Table<u64, Waiting>;
    /// The number of each attempt that waits.
    type Sequences: Table<HolderId, u64>;
    /// The clients with waiters.
    type Clients: Table<ClientId, Seen>;
}

/// All of a record in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InMemory;

impl Tables for InMemory {
    type Holds = Vec<Hold>;
    type Slots = BTreeMap<HolderId, u32>;
    type Queue = BTreeMap<u64, Waiting>;
    type Sequences = BTreeMap<HolderId, u64>;
    type Clients = BTreeMap<ClientId, Seen>;
}

impl<K: Ord + Copy, V> Table<K, V> for BTreeMap<K, V> {
    fn count(&self) -> u32 {
        self.len() as u32
    }

    fn find(&mut self, key: K) -> Option<&mut V> {
        self.get_mut(&key)
    }

    fn put(&mut self, key: K, row: V) {
        self.insert(key, row);
    }

    fn take(&mut self, key: K) -> Option<V> {
        self.remove(&key)
    }

    fn next(&mut self, from: K) -> Option<K> {
        self.range(from..).next().map(|(key, _)| *key)
    }

    fn previous(&mut self, below: K) -> Option<K> {
        self.range((Bound::Unbounded, Bound::Excluded(below))).next_back().map(|(key, _)| *key)
    }
}

impl Holds for Vec<Hold> {
    fn count(&self) -> u32 {
        self.len() as u32
    }

    fn at(&mut self, slot: u32) -> &mut Hold {
        &mut self[slot as usize]
    }

    fn push(&mut self, hold: Hold) {
        self.push(hold);
    }

    fn pop(&mut self) -> Option<Hold> {
        self.pop()
    }
}
