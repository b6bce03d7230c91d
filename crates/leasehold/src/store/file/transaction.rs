//! The reads and writes of one transaction: a row for each name, with its record as text.
//!
//! A step reads and writes the whole record, with all holders and waiters. A waiter, or a held
//! permit, adds some 95 bytes to the record. The table has the time of a renewal (the fastest tenth
//! of them, 2 shared virtual cores, ext4). A store that kept each waiter in a separate row took 47
//! to 56 µs, whatever their number:
//!
//! | waiting | 0 | 10 | 100 | 300 | 1,000 | 3,000 |
//! |---|---|---|---|---|---|---|
//! | a renewal | 15 µs | 24 µs | 97 µs | 0.28 ms | 1.3 ms | 3.8 ms |
//!
//! The waiters are processes of one machine, each of which asks once for all its callers, and a
//! hundred of them are many. Rows could serve ten thousand, but every step of the model would have
//! to ask for each row that it needs.

use std::sync::Arc;

use leasehold_core::model::{Outcome, Record, Records};
use leasehold_core::{
    Action, Addressed, Clock, Keep, LockName, Now, Page, Reply, StoreError, StoreErrorKind,
};
use rusqlite::{OptionalExtension, Params, Transaction};

use super::liveness::Liveness;
use super::location::Location;
use super::reap;
use crate::store::unreadable;

/// The largest value in the table `number`: 2⁵³ − 1, which any program reads exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The number from which tokens and places are drawn, one for all names. So a name whose row is
/// gone gets no token again, even if the wall clock was set back.
const COUNTER: &str = "counter";

const READ: &str = "SELECT record, boot FROM lock WHERE name = ?1";
const WRITE: &str = "INSERT INTO lock VALUES (?1, ?2, ?3)
    ON CONFLICT DO UPDATE SET boot = ?2, record = ?3";
const DELETE: &str = "DELETE FROM lock WHERE name = ?1";
const ROWS: &str = "SELECT name, record, boot FROM lock WHERE name >= ?1 ORDER BY name";

/// What the thread of a store and its callers have in common.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) location: Location,
    /// The start of the machine, and the offset of this process's clock from the machine's.
    pub(crate) boot: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) liveness: Arc<Liveness>,
}

impl Site {
    pub(crate) fn now(&self) -> Now {
        Now::of(&*self.clock)
    }

    /// Sends the messages of a transaction.
    pub(crate) fn deliver<T>(&self, (answer, messages): (T, Vec<Addressed>)) -> T {
        for (client, message) in messages {
            self.liveness.send(client, &message);
        }
        answer
    }
}

/// A transaction under way. To another crate it is a transaction in its own tables: see
/// [`File::transact`](crate::store::File::transact).
#[derive(Debug)]
pub struct FileTransaction<'a> {
    transaction: Transaction<'a>,
    site: &'a Site,
    /// The time after the transaction has begun. With the time from before it waited for its turn,
    /// a grant might be over before its waiter could claim it.
    pub(crate) now: Now,
}

impl FileTransaction<'_> {
    /// The time by the store's wall clock, in microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        self.now.token_us
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
        self.site.location.sql(work(&self.transaction))
    }
}

impl<'a> FileTransaction<'a> {
    pub(crate) fn new(transaction: Transaction<'a>, site: &'a Site) -> Self {
        Self { transaction, site, now: site.now() }
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let committed = self.site.location.sql(self.transaction.commit());
        committed.map_err(|error| match error.kind() {
            StoreErrorKind::Full => error,
            // It is unknown whether the commit has taken effect.
            _ => error.maybe_executed(),
        })
    }

    /// Edits the record of a name, and the counter. An edit that fails leaves both as they are. A
    /// record that is empty has no row.
    pub(crate) fn edit<T>(
        &self,
        name: &LockName,
        work: impl FnOnce(&mut Record, &mut u64) -> T,
    ) -> Result<T, StoreError> {
        let stored: Option<(String, String)> = self.sql(|transaction| {
            let mut statement = transaction.prepare_cached(READ)?;
            statement.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })?;
        let mut record = match &stored {
            Some((text, boot)) => self.decode(name, text, boot)?,
            None => Record::default(),
        };
        let before = self.number(COUNTER)?;
        let mut counter = before;
        let done = work(&mut record, &mut counter);
        if counter != before {
            self.set_number(COUNTER, counter)?;
        }
        let text = record.to_text();
        match stored {
            Some(_) if record.is_empty() => self.run(DELETE, [name.as_str()])?,
            None if record.is_empty() => {}
            Some((stored, _)) if stored == text => {}
            Some(_) | None => self.run(WRITE, (name.as_str(), &self.site.boot, text))?,
        }
        Ok(done)
    }

    fn run(&self, sql: &str, parameters: impl Params) -> Result<(), StoreError> {
        self.sql(|transaction| transaction.prepare_cached(sql)?.execute(parameters).map(drop))
    }

    /// Decodes the record of a row. Of a record from before the machine was started, only the last
    /// run counts.
    fn decode(&self, name: &LockName, text: &str, boot: &str) -> Result<Record, StoreError> {
        let record = Record::from_text(text).map_err(|why| {
            let table = format!("`lock` of file:{}", self.site.location.database.display());
            unreadable::error(name, &table, why)
        })?;
        let is_of_boot = *boot == self.site.boot;
        Ok(if is_of_boot { record } else { Record { last: record.last, ..Record::default() } })
    }

    /// A number that the store keeps; zero before it is set.
    pub(crate) fn number(&self, name: &str) -> Result<u64, StoreError> {
        let value = self.sql(|transaction| {
            let sql = "SELECT value FROM number WHERE name = ?1";
            let mut statement = transaction.prepare_cached(sql)?;
            statement.query_row([name], |row| row.get::<_, i64>(0)).optional()
        });
        let value = u64::try_from(value?.unwrap_or(0)).ok().filter(|value| *value <= MAX_NUMBER);
        value.ok_or_else(|| {
            let what = format!(
                ": the number {name:?} is damaged: with nobody at work, set it to 0 in the table \
                 `number`"
            );
            self.site.location.error((StoreErrorKind::Corrupt, what))
        })
    }

    pub(crate) fn set_number(&self, name: &str, value: u64) -> Result<(), StoreError> {
        // The database's integers are signed.
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.run("INSERT OR REPLACE INTO number VALUES (?1, ?2)", (name, value))
    }
}

/// The records of all names.
impl Records for &FileTransaction<'_> {
    type Error = StoreError;

    /// Includes the names whose record cannot be read.
    fn page(
        &mut self,
        now: Now,
        prefix: &str,
        after: Option<&str>,
        keys: u32,
    ) -> Result<Page, StoreError> {
        let mut page = Page::default();
        self.sql(|transaction| {
            let mut statement = transaction.prepare_cached(ROWS)?;
            let mut rows = statement.query([after.unwrap_or(prefix)])?;
            while let Some(row) = rows.next()? {
                let (name, text, boot): (String, String, String) = row.try_into()?;
                // A name that is not of ours belongs to the program that put it there.
                let Ok(name) = LockName::new(name) else { continue };
                if after == Some(name.as_str()) {
                    continue;
                }
                let record = self.decode(&name, &text, &boot);
                let is_used = record.map_or(true, |record| record.is_in_use(now));
                if !name.as_str().starts_with(prefix) || !page.scan(&name, is_used, keys) {
                    break;
                }
            }
            Ok(page)
        })
    }

    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, StoreError> {
        if let Action::Take(take) = action {
            // The client must count as alive before anything is written in its name.
            let registered = self.site.liveness.register(take.request.id.client);
            self.site.location.io(registered)?;
        }
        self.edit(name, |record, counter| {
            reap::step(record, counter, now, action, &self.site.liveness)
        })
    }

    fn keep(&mut self, now: Now, name: &LockName, keep: &Keep) -> Result<Outcome, StoreError> {
        self.step(now, name, &Action::Keep(keep.clone())).or_else(|error| {
            let why = unreadable::refusal(&error).ok_or(error)?;
            Ok(Outcome { reply: Reply::Refused(why), messages: Vec::new() })
        })
    }
}
