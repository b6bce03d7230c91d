//! The database of a store, and its transactions.

pub(crate) mod disk_space;
pub(crate) mod schema;
pub(crate) mod tidy;
mod transaction;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::model::Rules;
use leasehold_core::{StoreError, StoreErrorKind};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::disk_space::{DiskSpace, Reserve};
pub use self::transaction::FileTransaction;
pub(crate) use self::transaction::{MAX_NUMBER, Writing};
use crate::store::file::place::{Files, Location};

/// How long to wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait for the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Pages of the log at which a process that finds the log left behind copies it into the database:
/// 64, 256 KiB. SQLite reads and checks all of a log that nobody had open, some 3 µs a page. If
/// only short commands use the store, each of them finds the log so.
const LONG_LEFT_LOG_PAGES: u32 = 64;

/// One connection to the database.
#[derive(Debug)]
pub(crate) struct Database {
    location: Location,
    connection: Connection,
    boot: String,
    rules: Rules,
    /// What the paths led to when it was opened.
    files: Option<Files>,
    disk_space: DiskSpace,
}

impl Database {
    /// Opens the database and creates what is missing. With the write lock held. From then
    /// on `log_pages` tells how long the log was after the last transaction.
    pub(crate) fn open(
        location: &Location,
        boot: String,
        rules: Rules,
        log_pages: Arc<AtomicU32>,
        is_alone: bool,
    ) -> Result<Self, StoreError> {
        let failed = |error| location.database_error(error);
        let mut connection = connect(&location.database, log_pages).map_err(failed)?;
        schema::prepare(&mut connection, location)?;
        let disk_space = DiskSpace::new(&connection).map_err(failed)?;
        let location = location.clone();
        let database = Self { location, connection, boot, rules, files: None, disk_space };
        if is_alone && database.log_pages()? >= LONG_LEFT_LOG_PAGES {
            database.shorten_log()?;
        }
        Ok(database)
    }

    /// From now on the paths must lead to these files.
    pub(crate) fn expect(&mut self, files: Files) {
        self.files = Some(files);
    }

    /// Whether the paths still lead to what is open. A database that was removed or replaced is
    /// nobody's any more: others may have made another under its path.
    pub(crate) fn check_files(&mut self) -> Result<(), StoreError> {
        let Some(files) = self.files else { return Ok(()) };
        let lengths = files.check(&self.location)?;
        let failed = |error| self.location.database_error(error);
        self.disk_space.note(&self.connection, lengths).map_err(failed)
    }

    /// Runs `work` in one transaction: all of it is done, or nothing. Runs it again if there is no
    /// room for it at first.
    pub(crate) fn write<T>(
        &mut self,
        reserve: Reserve,
        work: impl Fn(&Writing<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_files()?;
        for step in disk_space::steps() {
            match self.try_write(reserve, &work) {
                Err(error) if error.kind() == StoreErrorKind::Full => {}
                done => return done,
            }
            let has_grown = self.disk_space.grow(&self.connection, &self.location.log, step);
            self.check_files()?;
            // A log that was copied begins again in the room that it has. If it cannot be copied,
            // the next attempt fails as this one did.
            let _ = self.shorten_log();
            if !has_grown {
                break;
            }
        }
        self.try_write(reserve, &work)
    }

    fn try_write<T>(
        &mut self,
        reserve: Reserve,
        work: impl Fn(&Writing<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { location, connection, boot, rules, disk_space, .. } = self;
        let failed = |error| location.database_error(error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if reserve == Reserve::Keep && !disk_space.is_whole(&transaction).map_err(failed)? {
            return Err(location.full());
        }
        let writing = Writing::new(transaction, location, boot, *rules);
        let done = work(&writing)?;
        writing.commit()?;
        Ok(done)
    }

    /// The number that tells this database from others; zero before it is given one.
    pub(crate) fn identity(&mut self) -> Result<u64, StoreError> {
        self.write(Reserve::Use, |writing| writing.number("identity"))
    }

    pub(crate) fn set_identity(&mut self, number: u64) -> Result<(), StoreError> {
        self.write(Reserve::Use, |writing| writing.set_number("identity", number))
    }

    /// Whether the paths lead to other files than those that are open, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        let checked = self.files.map(|files| files.check(&self.location));
        matches!(checked, Some(Err(error)) if error.kind() == StoreErrorKind::Corrupt)
    }

    fn log_pages(&self) -> Result<u32, StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))
            .map_err(|error| self.location.database_error(error))
    }

    /// Copies the log into the database, without holding up anybody who writes.
    pub(crate) fn shorten_log(&self) -> Result<(), StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| self.location.database_error(error))
    }
}

fn connect(path: &Path, log_pages: Arc<AtomicU32>) -> rusqlite::Result<Connection> {
    // CREATE is missing, because the file was created with its mode. SQLite does not share it
    // between threads, since it is behind a mutex of ours.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // The disk is waited for when the log is copied, not at every commit. A power cut then costs
    // the last transactions, and never the file's integrity (which OFF would). Nothing that matters
    // is lost: a restart ends all leases, and tokens go on from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // This replaces SQLite's own copying of the log, in the middle of somebody's commit.
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(connection)
}
