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
pub(crate) use self::transaction::Writing;
use crate::store::file::place::{Files, Location};

/// The longest wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait for the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// If a process finds a log of this many pages that nobody has open, it copies the log into the
/// database: 64 pages, which is 256 KiB. SQLite reads and checks all of such a log, at some 3 µs a
/// page. If only short commands use the store, each of them finds the log in this state.
const LONG_LEFT_LOG_PAGES: u32 = 64;

/// One connection to the database.
#[derive(Debug)]
pub(crate) struct Database {
    location: Location,
    connection: Connection,
    boot: String,
    rules: Rules,
    /// The files to which the paths led when the database was opened.
    files: Option<Files>,
    disk_space: DiskSpace,
}

impl Database {
    /// Opens the database and creates the missing parts. The caller holds the write lock. From then
    /// on, `log_pages` has the length of the log after the last transaction.
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

    /// Sets the files to which the paths must lead from now on.
    pub(crate) fn expect(&mut self, files: Files) {
        self.files = Some(files);
    }

    /// Checks that the paths still lead to the open files. A database that was removed or replaced
    /// must not be used any more: others may have made a new one under its path.
    pub(crate) fn check_files(&mut self) -> Result<(), StoreError> {
        let Some(files) = self.files else { return Ok(()) };
        let lengths = files.check(&self.location)?;
        let failed = |error| self.location.database_error(error);
        self.disk_space.note(&self.connection, lengths).map_err(failed)
    }

    /// Runs `work` in one transaction: all of it is done, or nothing. If there is no room for it at
    /// first, `work` runs again.
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
            // A log that was copied starts again from its beginning, and needs no more disk space.
            // If it cannot be copied, the next attempt fails like this one.
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

    /// Whether the paths lead to other files than the open ones, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        let checked = self.files.map(|files| files.check(&self.location));
        matches!(checked, Some(Err(error)) if error.kind() == StoreErrorKind::Corrupt)
    }

    fn log_pages(&self) -> Result<u32, StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))
            .map_err(|error| self.location.database_error(error))
    }

    /// Copies the log into the database, without delaying writers.
    pub(crate) fn shorten_log(&self) -> Result<(), StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| self.location.database_error(error))
    }
}

fn connect(path: &Path, log_pages: Arc<AtomicU32>) -> rusqlite::Result<Connection> {
    // SQLITE_OPEN_CREATE is missing, because the file exists already, with the right mode. SQLite
    // need not lock the connection itself, because it is behind a mutex of ours.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // SQLite waits for the disk when it copies the log, not at every commit. A power cut then costs
    // the last transactions, but never the file's integrity (which OFF would risk). Nothing that
    // matters is lost: a restart ends all leases, and tokens continue from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // This replaces SQLite's own copying of the log, which happens in the middle of a commit.
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(connection)
}
