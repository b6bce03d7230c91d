//! The reads and writes of one transaction: a row for each name, with its record as bytes.
//!
//! A step reads and writes the whole record, with all holders and waiters. A waiter adds some 65
//! bytes to the record, a held permit some 75. The table has the median time of a renewal (2 shared
//! virtual cores, ext4). The last line of the table is for a store that kept each waiter and each
//! hold in a separate row:
//!
//! | waiting | 10 | 100 | 300 | 1,000 | 3,000 | 10,000 |
//! |---|---|---|---|---|---|---|
//! | one value | 20 µs | 41 µs | 106 µs | 0.32 ms | 1.9 ms | 9 ms |
//! | rows | 47 µs | 47 µs | 48 µs | 56 µs | 49 µs | 48 µs |
//!
//! The waiters are processes of one machine, each of which asks once for all its callers. A hundred
//! processes are served as fast as with rows. With three hundred, a hand-over (release, claim,
//! join) takes 1 to 3 ms, instead of 0.6 to 1 ms with rows; with a thousand it takes 3 to 6 ms.
//! Rows could serve ten thousand, but every step of the model would have to ask for each row that
//! it needs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use leasehold_core::model::{self, Outcome, Record, Rules, UnreadableRecord};
use leasehold_core::{Action, ClientId, LockName, Now, Page, StoreError, StoreErrorKind};
use rusqlite::{OptionalExtension, Params, Transaction};

use crate::store::file::clients::{self, Liveness};
use crate::store::file::place::Location;

/// The largest value in the table `number`: 2⁵³ − 1, which any program reads exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

const READ: &str = "SELECT record, boot FROM lock WHERE name = ?1";
const WRITE: &str = "INSERT INTO lock VALUES (?1, ?2, ?3)
    ON CONFLICT DO UPDATE SET boot = ?2, record = ?3";
const ROWS: &str = "SELECT name, record, boot FROM lock WHERE name >= ?1 ORDER BY name";

/// A transaction under way.
pub(crate) struct Writing<'a> {
    transaction: Transaction<'a>,
    location: &'a Location,
    boot: &'a str,
    pub(crate) rules: Rules,
    /// The records to write at the end, one for each name: leases that are renewed together may
    /// have the same name.
    edited: RefCell<BTreeMap<LockName, Edited>>,
}

/// The record of a name.
struct Edited {
    record: Record,
    /// The bytes of the record in the database, if it is there.
    stored: Option<Vec<u8>>,
}

/// One row: a name, and the times of its record.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: LockName,
    /// The time at which the record may be forgotten, and the time of its last token; `None` if the
    /// record is damaged.
    pub(crate) times: Option<(u64, u64)>,
}

impl<'a> Writing<'a> {
    pub(crate) fn new(
        transaction: Transaction<'a>,
        location: &'a Location,
        boot: &'a str,
        rules: Rules,
    ) -> Self {
        Self { transaction, location, boot, rules, edited: RefCell::default() }
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        for (name, edited) in self.edited.take() {
            self.write(&name, edited)?;
        }
        self.transaction.commit().map_err(|error| match self.location.database_error(error) {
            full if full.kind() == StoreErrorKind::Full => full,
            // It is unknown whether the commit has taken effect.
            other => other.maybe_executed(),
        })
    }

    /// Runs some SQL of another module.
    pub(crate) fn sql<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.transaction).map_err(|error| self.location.database_error(error))
    }

    /// Applies one action to one name. Also returns the clients whose deaths concern the attempt,
    /// if it waits.
    pub(crate) fn step(
        &self,
        name: &LockName,
        mut now: Now,
        action: &Action,
        liveness: &Liveness,
    ) -> Result<(Outcome, Vec<ClientId>), StoreError> {
        self.edit(name, |record, is_new| {
            if is_new {
                // The store may have forgotten this name and its last token. So the new token is
                // above all forgotten ones.
                now.token_us = now.token_us.max(self.number("highest_token_us")? + 1);
            }
            let rules = self.rules;
            let mut reaped = clients::reap_dead_clients(record, now, rules, liveness);
            let outcome = model::step(record, now, rules, action);
            if !outcome.messages.is_empty() {
                // The step has granted the name to a client that may be dead, and was not checked
                // before.
                reaped.append(clients::reap_dead_clients(record, now, rules, liveness));
            }
            let watched = clients::watched(record, action, &outcome.reply, liveness);
            reaped.messages.extend(outcome.messages);
            let (messages, more) = (reaped.messages, reaped.more | outcome.more);
            Ok((Outcome { reply: outcome.reply, messages, more }, watched))
        })
    }

    /// Edits the record of a name, which is empty if the name is new. An edit that fails must leave
    /// the record as it is.
    pub(crate) fn edit<T>(
        &self,
        name: &LockName,
        work: impl FnOnce(&mut Record, bool) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut edited = self.edited.borrow_mut();
        let Edited { record, stored } = match edited.entry(name.clone()) {
            Entry::Occupied(edited) => edited.into_mut(),
            Entry::Vacant(edited) => edited.insert(self.read(name)?),
        };
        let is_new = stored.is_none() && record.collect_at_us == 0;
        work(record, is_new)
    }

    /// Reads the record of a name.
    fn read(&self, name: &LockName) -> Result<Edited, StoreError> {
        let row: Option<(Vec<u8>, String)> = self.sql(|transaction| {
            let mut statement = transaction.prepare_cached(READ)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement.query_row([name.as_str()], row).optional()
        })?;
        let (record, stored) = match row {
            Some((bytes, boot)) => (self.decode(name, &bytes, &boot)?, Some(bytes)),
            None => (Record::default(), None),
        };
        Ok(Edited { record, stored })
    }

    /// Writes a record that has changed.
    fn write(&self, name: &LockName, edited: Edited) -> Result<(), StoreError> {
        let Edited { record, stored } = edited;
        if stored.is_none() && record.collect_at_us == 0 {
            // Nothing was worth keeping: a name that was only asked about leaves no record.
            return Ok(());
        }
        let bytes = record.to_bytes();
        match stored.is_some_and(|stored| stored == bytes) {
            true => Ok(()),
            false => self.run(WRITE, (name.as_str(), self.boot, bytes)),
        }
    }

    /// Names that begin with `prefix`, in order, including those whose record cannot be read.
    pub(crate) fn list(&self, prefix: &str, limit: u32) -> Result<Vec<LockName>, StoreError> {
        let mut names = Vec::new();
        self.each_row(prefix, |name, record| {
            if names.len() == limit as usize || !name.as_str().starts_with(prefix) {
                return false;
            }
            if record.is_none_or(|record| !record.is_idle()) {
                names.push(name.clone());
            }
            true
        })?;
        Ok(names)
    }

    /// The names in use, or unreadable, among the next `keys` names that begin with `prefix` and
    /// come after `after`.
    pub(crate) fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        keys: u32,
    ) -> Result<Page, StoreError> {
        let mut page = Page::default();
        self.each_row(after.unwrap_or(prefix), |name, record| {
            if after == Some(name.as_str()) {
                return true;
            }
            let is_used = record.is_none_or(|record| !record.is_idle());
            name.as_str().starts_with(prefix) && page.scan(name, is_used, keys)
        })?;
        Ok(page)
    }

    /// Rows in the order of their names, beginning with the first name after `after`.
    pub(crate) fn rows(&self, after: &str, limit: u32) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each_row(after, |name, record| {
            if name.as_str() != after {
                let times = record.map(|record| (record.collect_at_us, record.last_token_us));
                rows.push(Row { name: name.clone(), times });
            }
            rows.len() < limit as usize
        })?;
        Ok(rows)
    }

    /// Calls `visit` with each name from `first` on, and with its record unless that is damaged,
    /// until `visit` has seen enough.
    fn each_row(
        &self,
        first: &str,
        mut visit: impl FnMut(&LockName, Option<&Record>) -> bool,
    ) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(ROWS).map_err(failed)?;
        let mut rows = statement.query([first]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            // This is not a name of ours: it belongs to the program that put it there.
            let Ok(name) = LockName::new(row.get::<_, String>(0).map_err(failed)?) else {
                continue;
            };
            let bytes: Vec<u8> = row.get(1).map_err(failed)?;
            let boot: String = row.get(2).map_err(failed)?;
            let record = self.decode(&name, &bytes, &boot);
            if !visit(&name, record.as_ref().ok()) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&self, name: &LockName) -> Result<(), StoreError> {
        self.run("DELETE FROM lock WHERE name = ?1", [name.as_str()])
    }

    fn run(&self, sql: &str, parameters: impl Params) -> Result<(), StoreError> {
        self.sql(|transaction| transaction.prepare_cached(sql)?.execute(parameters).map(drop))
    }

    /// Decodes the record of a row. Of a record from before the machine was started, only the last
    /// token is left. The source of the error is an [`UnreadableRecord`].
    fn decode(&self, name: &LockName, bytes: &[u8], boot: &str) -> Result<Record, StoreError> {
        let record = Record::from_bytes(bytes).map_err(|unreadable| {
            let error = match unreadable {
                UnreadableRecord::Version(found) => self.location.other_version(found.into()),
                _ => self.location.damaged(
                    &format!("the record of {:?}", name.as_str()),
                    "with nobody at work, delete its row in the table `lock`",
                ),
            };
            error.with_source(unreadable)
        })?;
        match boot == self.boot {
            true => Ok(record),
            false => Ok(Record { last_token_us: record.last_token_us, ..Record::default() }),
        }
    }

    /// A number that the store keeps; zero before it is set.
    pub(crate) fn number(&self, name: &str) -> Result<u64, StoreError> {
        let value = self.sql(|transaction| {
            let sql = "SELECT value FROM number WHERE name = ?1";
            let mut statement = transaction.prepare_cached(sql)?;
            statement.query_row([name], |row| row.get::<_, i64>(0)).optional()
        });
        u64::try_from(value?.unwrap_or(0)).ok().filter(|value| *value <= MAX_NUMBER).ok_or_else(
            || {
                let remedy = "with nobody at work, set it to 0 in the table `number`";
                self.location.damaged(&format!("the number {name:?}"), remedy)
            },
        )
    }

    pub(crate) fn set_number(&self, name: &str, value: u64) -> Result<(), StoreError> {
        // The database's integers are signed.
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.run("INSERT OR REPLACE INTO number VALUES (?1, ?2)", (name, value))
    }
}

/// A transaction of another crate, in its own tables: see
/// [`File::transact`](crate::store::File::transact).
pub struct FileTransaction<'a> {
    pub(crate) writing: &'a Writing<'a>,
    pub(crate) now_us: u64,
}

impl FileTransaction<'_> {
    /// The time by the store's wall clock, in microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Runs some SQL.
    ///
    /// # Errors
    ///
    /// The error of the SQL, as an error of this store.
    pub fn sql<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.writing.sql(work)
    }
}

impl std::fmt::Debug for FileTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTransaction").field("now_us", &self.now_us).finish_non_exhaustive()
    }
}
