//! The rows of one table of a record: read when a step asks for them, written if it has changed
//! them.
//!
//! A table with a few rows lies in its record, so that a name that nobody waits for is one row of
//! the database. A larger one has a row of the database for each of its own.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;

use leasehold_core::model::{Bounds, Hold, Holds, Table};
use leasehold_core::{LockName, StoreError};
use rusqlite::{OptionalExtension, Params, Transaction};

use super::codec::{self, Key, Packed, Reader, Writer};
use super::location::Location;

/// Most rows that lie in the record itself: 8, some 1 KiB of waiters, a quarter of a page.
const MOST_INSIDE: u32 = 8;

/// A table that has shrunk to so few rows is brought back into its record.
const FEW: u32 = MOST_INSIDE / 2;

const READ: &str = "SELECT value FROM lock_row WHERE name = ?1 AND kind = ?2 AND key = ?3";
const READ_NEXT: &str = "SELECT key, value FROM lock_row
    WHERE name = ?1 AND kind = ?2 AND key >= ?3 ORDER BY key LIMIT 1";
const READ_PREVIOUS: &str = "SELECT key, value FROM lock_row
    WHERE name = ?1 AND kind = ?2 AND key < ?3 ORDER BY key DESC LIMIT 1";
const READ_ALL: &str = "SELECT key, value FROM lock_row WHERE name = ?1 AND kind = ?2";
const WRITE: &str = "INSERT OR REPLACE INTO lock_row VALUES (?1, ?2, ?3, ?4)";
const REMOVE: &str = "DELETE FROM lock_row WHERE name = ?1 AND kind = ?2 AND key = ?3";
const REMOVE_ALL: &str = "DELETE FROM lock_row WHERE name = ?1 AND kind = ?2";

/// Where the rows of one name come from, and the first thing that went wrong there.
pub(super) struct Source<'a> {
    transaction: &'a Transaction<'a>,
    location: &'a Location,
    name: &'a LockName,
    bounds: OnceCell<Bounds>,
    failure: RefCell<Option<StoreError>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        transaction: &'a Transaction<'a>,
        location: &'a Location,
        name: &'a LockName,
    ) -> Self {
        let (bounds, failure) = (OnceCell::new(), RefCell::new(None));
        Self { transaction, location, name, bounds, failure }
    }

    /// From now on rows must agree with this.
    pub(super) fn expect(&self, bounds: Bounds) {
        let _ = self.bounds.set(bounds);
    }

    /// What went wrong, if anything did: then what a step has made of the record is worth nothing.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub(super) fn damaged(&self) -> StoreError {
        self.location.damaged(
            &format!("the record of {:?}", self.name.as_str()),
            "with nobody at work, delete its row in the table `lock`",
        )
    }

    pub(super) fn fail(&self, error: StoreError) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(super) fn name(&self) -> &'a str {
        self.name.as_str()
    }

    /// A value of the database, if it is there.
    pub(super) fn value(&self, sql: &str, parameters: impl Params) -> Option<Vec<u8>> {
        let value = self.sql(|transaction| {
            let mut statement = transaction.prepare_cached(sql)?;
            statement.query_row(parameters, |row| row.get::<_, Vec<u8>>(0)).optional()
        });
        value.flatten()
    }

    /// Changes the database.
    pub(super) fn run(&self, sql: &str, parameters: impl Params) {
        self.sql(|transaction| transaction.prepare_cached(sql)?.execute(parameters));
    }

    /// Runs some SQL; nothing once something went wrong.
    fn sql<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Option<T> {
        if self.has_failed() {
            return None;
        }
        work(self.transaction).map_err(|error| self.fail(self.location.database_error(error))).ok()
    }
}

/// What is known of one row.
struct Known<V> {
    row: Option<V>,
    /// As it is in the database.
    stored: Option<Vec<u8>>,
}

/// A table of a record.
pub(super) struct Rows<'a, K, V> {
    source: &'a Source<'a>,
    kind: u8,
    count: u32,
    /// All rows are known, and none is in the database.
    is_inside: bool,
    known: BTreeMap<K, Known<V>>,
}

impl<'a, K: Key, V: Packed<K>> Rows<'a, K, V> {
    pub(super) fn empty(source: &'a Source<'a>, kind: u8) -> Self {
        Self { source, kind, count: 0, is_inside: true, known: BTreeMap::new() }
    }

    /// Reads what the record says of the table.
    pub(super) fn unpack(source: &'a Source<'a>, kind: u8, from: &mut Reader<'_>) -> Option<Self> {
        let mut table = Self::empty(source, kind);
        table.count = from.u32()?;
        table.is_inside = from.u32()? == 0;
        if table.is_inside {
            for _ in 0..table.count {
                let (key, row) = (K::unpack(from)?, V::unpack(from)?);
                table.known.insert(key, Known { row: Some(row), stored: None });
            }
            // One that comes twice would make another disappear.
            (table.known.len() == table.count as usize).then_some(table)
        } else {
            Some(table)
        }
    }

    /// Whether what lies in the record agrees with the rest of it.
    pub(super) fn is_sound(&self, bounds: &Bounds) -> bool {
        let rows = self.known.iter().filter_map(|(key, known)| Some((key, known.row.as_ref()?)));
        rows.into_iter().all(|(key, row)| row.is_sound(*key, bounds))
    }

    /// Writes the rows that have changed, and what the record is to say of the table.
    pub(super) fn pack(&mut self, to: &mut Writer) {
        if !self.is_inside && self.count <= FEW {
            self.bring_inside();
        }
        let stays_inside = self.is_inside && self.count <= MOST_INSIDE;
        to.u32(self.count);
        to.u32(u32::from(!stays_inside));
        for (key, Known { row, stored }) in &self.known {
            match row {
                Some(row) if stays_inside => {
                    to.0.extend_from_slice(&key.bytes());
                    row.pack(to);
                }
                Some(row) => {
                    let mut bytes = Writer::default();
                    row.pack(&mut bytes);
                    if stored.as_ref() != Some(&bytes.0) {
                        self.run(WRITE, (self.name(), self.kind, key.bytes(), bytes.0));
                    }
                }
                None if stored.is_some() => {
                    self.run(REMOVE, (self.name(), self.kind, key.bytes()));
                }
                None => {}
            }
        }
    }

    fn bring_inside(&mut self) {
        let all = self.source.sql(|transaction| {
            let mut statement = transaction.prepare_cached(READ_ALL)?;
            let rows = statement.query_map((self.name(), self.kind), key_and_value)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        for (key, value) in all.unwrap_or_default() {
            self.learn(&key, value);
        }
        self.run(REMOVE_ALL, (self.name(), self.kind));
        self.known.retain(|_, known| known.row.is_some());
        self.known.values_mut().for_each(|known| known.stored = None);
        self.is_inside = true;
        if self.known.len() != self.count as usize {
            self.source.fail(self.source.damaged());
        }
    }

    fn name(&self) -> &'a str {
        self.source.name()
    }

    fn run(&self, sql: &str, parameters: impl Params) {
        self.source.run(sql, parameters);
    }

    /// Reads a row, unless it is known.
    fn read(&mut self, key: K) {
        if self.is_inside || self.known.contains_key(&key) {
            return;
        }
        match self.source.value(READ, (self.name(), self.kind, key.bytes())) {
            Some(value) => drop(self.learn(&key.bytes(), value)),
            None => drop(self.known.insert(key, Known { row: None, stored: None })),
        }
    }

    /// Takes note of a row of the database, unless it is known. Gives its key.
    fn learn(&mut self, key: &[u8], value: Vec<u8>) -> Option<K> {
        let parsed = Reader::whole(key, K::unpack);
        let Some(key) = parsed else {
            self.source.fail(self.source.damaged());
            return None;
        };
        if !self.known.contains_key(&key) {
            let bounds = self.source.bounds.get();
            let row = Reader::whole(&value, V::unpack)
                .filter(|row| bounds.is_none_or(|bounds| row.is_sound(key, bounds)));
            if row.is_none() {
                self.source.fail(self.source.damaged());
            }
            self.known.insert(key, Known { row, stored: Some(value) });
        }
        Some(key)
    }

    /// The first key of the database that `sql` finds and that is not removed, from `edge` on;
    /// `edge` moves on behind each that is.
    fn search(&mut self, sql: &str, mut edge: Vec<u8>, is_upwards: bool) -> Option<K> {
        while !self.is_inside && self.count > 0 {
            let found = self.source.sql(|transaction| {
                let mut statement = transaction.prepare_cached(sql)?;
                statement.query_row((self.name(), self.kind, &edge), key_and_value).optional()
            });
            let (key, value) = found.flatten()?;
            let known = self.learn(&key, value)?;
            if self.known.get(&known).is_some_and(|known| known.row.is_some()) {
                return Some(known);
            }
            edge = key;
            if is_upwards {
                edge.push(0); // nothing lies between
            }
        }
        None
    }
}

impl<K: Key, V: Packed<K>> Table<K, V> for Rows<'_, K, V> {
    fn count(&self) -> u32 {
        if self.source.has_failed() { 0 } else { self.count }
    }

    fn find(&mut self, key: K) -> Option<&mut V> {
        self.read(key);
        self.known.get_mut(&key)?.row.as_mut()
    }

    fn put(&mut self, key: K, row: V) {
        self.read(key);
        let known = self.known.entry(key).or_insert(Known { row: None, stored: None });
        if known.row.replace(row).is_none() {
            self.count += 1;
        }
    }

    fn take(&mut self, key: K) -> Option<V> {
        self.read(key);
        let row = self.known.get_mut(&key)?.row.take()?;
        self.count = self.count.saturating_sub(1);
        Some(row)
    }

    fn next(&mut self, from: K) -> Option<K> {
        let stored = self.search(READ_NEXT, from.bytes(), true);
        let mut known = self.known.range(from..).filter(|(_, known)| known.row.is_some());
        let known = known.next().map(|(key, _)| *key);
        [stored, known].into_iter().flatten().min()
    }

    fn previous(&mut self, below: K) -> Option<K> {
        let stored = self.search(READ_PREVIOUS, below.bytes(), false);
        let range = (Bound::Unbounded, Bound::Excluded(below));
        let mut known = self.known.range(range).rev().filter(|(_, known)| known.row.is_some());
        let known = known.next().map(|(key, _)| *key);
        [stored, known].into_iter().flatten().max()
    }
}

impl Holds for Rows<'_, u32, Hold> {
    fn count(&self) -> u32 {
        Table::count(self)
    }

    fn at(&mut self, slot: u32) -> &mut Hold {
        self.read(slot);
        let known = self.known.entry(slot).or_insert(Known { row: None, stored: None });
        known.row.get_or_insert_with(|| {
            self.source.fail(self.source.damaged());
            codec::blank_hold()
        })
    }

    fn push(&mut self, hold: Hold) {
        self.put(self.count, hold);
    }

    fn pop(&mut self) -> Option<Hold> {
        let last = Table::count(self).checked_sub(1)?;
        let hold = self.take(last);
        if hold.is_none() {
            self.source.fail(self.source.damaged());
        }
        hold
    }
}

fn key_and_value(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Vec<u8>, Vec<u8>)> {
    Ok((row.get(0)?, row.get(1)?))
}
