//! The database: one row per name, one transaction per operation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::model::{self, Record};
use leasehold_core::{
    Action, Addressed, ClientId, LockName, Now, Reply, StoreError, StoreErrorKind,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::RULES;
use super::bury;
use super::codec::{self, Unreadable};
use super::location::Location;
use super::presence::Presence;

/// The layout of tables and records that this release reads and writes.
const VERSION: u32 = codec::LAYOUT as u32;

/// Marks a database as one of leasehold's: "lshd" in ASCII.
const APPLICATION_ID: u32 = 0x6c73_6864;

/// How long to wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait at the gate.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const TABLES: &str = "
    CREATE TABLE lock (
        name TEXT PRIMARY KEY,
        boot TEXT NOT NULL,
        collect_at_us INTEGER NOT NULL,
        record BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO number VALUES ('highest_token_us', 0), ('tidy_at_us', 0);
";

const READ: &str = "SELECT record, boot FROM lock WHERE name = ?1";
const INSERT: &str = "INSERT INTO lock VALUES (?1, ?2, ?3, ?4)";
const UPDATE: &str = "UPDATE lock SET boot = ?2, collect_at_us = ?3, record = ?4 WHERE name = ?1";
const ROWS: &str = "SELECT name, record, boot FROM lock WHERE name >= ?1 ORDER BY name";

/// One connection to the database.
#[derive(Debug)]
pub(super) struct Database {
    location: Location,
    connection: Connection,
    boot: String,
}

/// What a step did, apart from changing the record.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) reply: Reply,
    pub(super) messages: Vec<Addressed>,
    pub(super) more: bool,
    /// Whose deaths concern the attempt, if it waits.
    pub(super) watched: Vec<ClientId>,
}

impl Database {
    /// Opens the database and creates what is missing. Within one's turn at the gate. From then
    /// on `log_pages` tells how long the log was after the last transaction.
    pub(super) fn open(
        location: &Location,
        boot: String,
        log_pages: Arc<AtomicU32>,
    ) -> Result<Self, StoreError> {
        let opened = connect(&location.database, log_pages);
        let mut connection = opened.map_err(|error| location.database_error(error))?;
        prepare(&mut connection, location)?;
        Ok(Self { location: location.clone(), connection, boot })
    }

    /// Runs `work` in a transaction of its own: all of it is done, or nothing.
    pub(super) fn write<T>(
        &mut self,
        work: impl FnOnce(&Writing<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { location, connection, boot, .. } = self;
        let failed = |error| location.database_error(error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let writing = Writing { transaction, location, boot };
        let done = work(&writing)?;
        // Whether a commit that failed has taken effect is for the next reader to find out.
        writing.transaction.commit().map_err(|error| failed(error).maybe_executed())?;
        Ok(done)
    }

    /// Copies the log into the database, without holding up anybody who writes.
    pub(super) fn shorten_log(&self) -> Result<(), StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| self.location.database_error(error))
    }
}

/// A transaction under way.
pub(super) struct Writing<'a> {
    transaction: Transaction<'a>,
    location: &'a Location,
    boot: &'a str,
}

impl Writing<'_> {
    /// Runs some SQL of another module.
    pub(super) fn sql<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.transaction).map_err(|error| self.location.database_error(error))
    }

    /// Applies one action to one name.
    pub(super) fn step(
        &self,
        name: &LockName,
        mut now: Now,
        action: &Action,
        presence: &Presence,
    ) -> Result<Stepped, StoreError> {
        let before = self.read(name)?;
        let is_new = before.is_none();
        if is_new {
            // This name may have been forgotten, with its last token.
            now.token_us = now.token_us.max(self.number("highest_token_us")? + 1);
        }
        let (before, mut record) = before.unwrap_or_default();
        let mut buried = bury::the_dead(&mut record, now, presence);
        let outcome = model::step(&mut record, now, RULES, action);
        if !outcome.messages.is_empty() {
            // Somebody was granted who had not been looked at.
            buried.append(bury::the_dead(&mut record, now, presence));
        }
        buried.messages.extend(outcome.messages);
        let stepped = Stepped {
            watched: bury::concerning(&record, action, &outcome.reply),
            reply: outcome.reply,
            messages: buried.messages,
            more: outcome.more | buried.more,
        };
        if is_new && record == Record::default() {
            return Ok(stepped);
        }
        let after = codec::encode(&record);
        if before != after {
            self.store(if is_new { INSERT } else { UPDATE }, name, &record, &after)?;
        }
        Ok(stepped)
    }

    /// Names that begin with `prefix`, in order.
    pub(super) fn list(
        &self,
        prefix: &str,
        limit: u32,
        idle: bool,
    ) -> Result<Vec<LockName>, StoreError> {
        let mut names = Vec::new();
        self.each_row(prefix, |name, record| {
            if names.len() == limit as usize || !name.as_str().starts_with(prefix) {
                return false;
            }
            if idle || !record.is_idle() {
                names.push(name);
            }
            true
        })?;
        Ok(names)
    }

    /// Some rows, in the order of their names, from the first name that follows `after` on.
    pub(super) fn rows(&self, after: &str, limit: u32) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each_row(after, |name, record| {
            if name.as_str() != after {
                rows.push(Row { name, record });
            }
            rows.len() < limit as usize
        })?;
        Ok(rows)
    }

    /// Calls `visit` with each row from `first` on until it says that it has seen enough.
    fn each_row(
        &self,
        first: &str,
        mut visit: impl FnMut(LockName, Record) -> bool,
    ) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(ROWS).map_err(failed)?;
        let mut rows = statement.query([first]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let name = self.name(row.get(0).map_err(failed)?)?;
            let bytes: Vec<u8> = row.get(1).map_err(failed)?;
            let boot: String = row.get(2).map_err(failed)?;
            let record = self.decode(&name, &bytes, &boot)?;
            if !visit(name, record) {
                break;
            }
        }
        Ok(())
    }

    /// The text of a record and what it says; everyone is forgotten if it is from before the
    /// machine was started.
    fn read(&self, name: &LockName) -> Result<Option<(Vec<u8>, Record)>, StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(READ).map_err(failed)?;
        let row = statement.query_row([name.as_str()], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?))
        });
        let Some((bytes, boot)) = row.optional().map_err(failed)? else { return Ok(None) };
        let record = self.decode(name, &bytes, &boot)?;
        Ok(Some((bytes, record)))
    }

    pub(super) fn replace(&self, name: &LockName, record: &Record) -> Result<(), StoreError> {
        self.store(UPDATE, name, record, &codec::encode(record))
    }

    pub(super) fn remove(&self, name: &LockName) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "DELETE FROM lock WHERE name = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        statement.execute([name.as_str()]).map_err(failed)?;
        Ok(())
    }

    fn store(
        &self,
        sql: &str,
        name: &LockName,
        record: &Record,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        let collect_at_us = signed(record.collect_at_us);
        statement.execute((name.as_str(), self.boot, collect_at_us, bytes)).map_err(failed)?;
        Ok(())
    }

    fn decode(&self, name: &LockName, bytes: &[u8], boot: &str) -> Result<Record, StoreError> {
        let mut record = codec::decode(bytes).map_err(|unreadable| {
            let (shown, name) = (self.location.database.display(), name.as_str());
            match unreadable {
                Unreadable::Damaged => {
                    let text = format!(
                        "file:{shown}: the record of {name:?} is damaged: with nobody at work, \
                         delete its row"
                    );
                    StoreError::new(StoreErrorKind::Corrupt, text)
                }
                Unreadable::Layout(found) => self.location.other_version(found.into()),
            }
        })?;
        if boot != self.boot {
            record.forget_everyone();
        }
        Ok(record)
    }

    fn name(&self, name: String) -> Result<LockName, StoreError> {
        LockName::new(name).map_err(|error| {
            let shown = self.location.database.display();
            let text = format!("file:{shown}: a row has no valid name ({error}): delete it");
            StoreError::new(StoreErrorKind::Corrupt, text)
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "SELECT value FROM number WHERE name = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        let value = statement.query_row([name], |row| row.get::<_, i64>(0)).map_err(failed)?;
        Ok(value.unsigned_abs())
    }

    pub(super) fn set_number(&self, name: &str, value: u64) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "UPDATE number SET value = ?2 WHERE name = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        statement.execute((name, signed(value))).map_err(failed)?;
        Ok(())
    }
}

/// One name and what is known of it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: LockName,
    pub(super) record: Record,
}

/// The database's integers are signed. Times in microseconds fit by far.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn connect(path: &Path, log_pages: Arc<AtomicU32>) -> rusqlite::Result<Connection> {
    // Not CREATE: the file was created with its mode. Not shared between threads by SQLite, since
    // it is behind a mutex of ours.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // The disk is waited for when the log is copied, not at every commit. A power cut then costs
    // the last transactions, and never the file's integrity (which OFF would). Nothing is lost by
    // it that counts: a restart ends all leases, and tokens go on from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // This replaces SQLite's own copying of the log, in the middle of somebody's commit.
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(connection)
}

/// Creates the tables in an empty database; refuses one that is not ours or too new.
fn prepare(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, u32>(0));
    let version = number("PRAGMA user_version").map_err(failed)?;
    let application = number("PRAGMA application_id").map_err(failed)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    let shown = location.database.display();
    if (version, application, tables) == (0, 0, 0) {
        transaction.execute_batch(TABLES).map_err(failed)?;
        transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    } else if application != APPLICATION_ID {
        let text = format!("file:{shown} is a database of another program: name another path");
        return Err(StoreError::new(StoreErrorKind::Corrupt, text));
    } else if version != VERSION {
        return Err(location.other_version(version));
    }
    transaction.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_to_be_full_and_nothing_is_half_written() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::check(&directory.path().join("locks.db")).unwrap();
        location.create().unwrap();
        let mut database = Database::open(&location, "boot".into(), Arc::default()).unwrap();
        // SQLite treats a database that may not grow like a disk that is full.
        database.connection.pragma_update(None, "max_page_count", 8).unwrap();
        let record = Record { capacity: 1, ..Record::default() };
        let bytes = vec![0; 1000];
        let mut written = 0;
        let error = loop {
            let name = LockName::new(format!("{written}")).unwrap();
            let done = database.write(|writing| {
                writing.store(INSERT, &name, &record, &bytes)?;
                writing.set_number("highest_token_us", written + 1)
            });
            match done {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
        assert!(!error.may_have_executed());
        let number = database.write(|writing| writing.number("highest_token_us")).unwrap();
        assert_eq!(number, written);
    }
}
