//! The database of a store: one connection, and its transactions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::disk_space::{self, DiskSpace, Reserve};
use super::schema;
use super::transaction::{FileTransaction, Site};
use super::users::Files;

/// The longest wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait for the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// If a process finds a log of this many pages that nobody has open, it copies the log into the
/// database: 64 pages, which is 256 KiB. SQLite reads and checks all of such a log, at some 3 µs a
/// page. If only short commands use the store, each of them finds the log in this state.
const LONG_LEFT_LOG_PAGES: u32 = 64;

/// The length of the log, in pages, at which it is copied into the database: 500, some 2 MB, half
/// of SQLite's own default. The copying waits for the disk, so no caller waits for it.
const LONG_LOG_PAGES: u32 = 500;

/// One connection to the database.
#[derive(Debug)]
pub(crate) struct Database {
    site: Arc<Site>,
    connection: Connection,
    /// The pages of the log after this process's last transaction.
    log_pages: Arc<AtomicU32>,
    /// The files to which the paths led when the database was opened.
    pub(crate) files: Files,
    disk_space: DiskSpace,
    /// Whether an operation may wait, for another program, or for the disk if the file has to grow.
    pub(crate) may_wait: bool,
}

impl Database {
    /// Opens the database and creates the missing parts. The caller holds the write lock.
    pub(crate) fn open(site: &Arc<Site>, is_alone: bool) -> Result<Self, StoreError> {
        let location = &site.location;
        let failed = |error| location.database_error(error);
        let log_pages = Arc::default();
        let mut connection = connect(&location.database, Arc::clone(&log_pages)).map_err(failed)?;
        schema::prepare(&mut connection, location)?;
        let disk_space = DiskSpace::new(&connection).map_err(failed)?;
        let found = Files::at(location);
        let (files, _) = found.map_err(|error| location.io_error("look at it", error))?;
        let site = Arc::clone(site);
        let database = Self { site, connection, log_pages, files, disk_space, may_wait: true };
        let left_pages: u32 = database.pragma("PRAGMA wal_checkpoint(NOOP)", |row| row.get(1))?;
        if is_alone && left_pages >= LONG_LEFT_LOG_PAGES {
            database.shorten_log()?;
        }
        Ok(database)
    }

    /// Checks that the paths still lead to the open files. A database that was removed or replaced
    /// must not be used any more: others may have made a new one under its path.
    fn check_files(&mut self) -> Result<(), StoreError> {
        let location = &self.site.location;
        let lengths = self.files.check(location)?;
        let noted = self.disk_space.note(&self.connection, lengths);
        noted.map_err(|error| location.database_error(error))
    }

    /// Whether the paths lead to other files than the open ones, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        let found = self.files.check(&self.site.location);
        found.is_err_and(|error| error.kind() == StoreErrorKind::Corrupt)
    }

    /// Runs `work` in one transaction: all of it is done, or nothing. If there is no room for it at
    /// first and this may wait, `work` runs again.
    pub(crate) fn write<T>(
        &mut self,
        reserve: Reserve,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let patience = if self.may_wait { BUSY_TIMEOUT } else { Duration::ZERO };
        let set = self.connection.busy_timeout(patience);
        set.map_err(|error| self.site.location.database_error(error))?;
        self.check_files()?;
        for step in disk_space::steps() {
            match self.try_write(reserve, &work) {
                Err(error) if error.kind() == StoreErrorKind::Full && self.may_wait => {}
                done => return done,
            }
            let log = &self.site.location.log;
            let has_grown = self.disk_space.grow(&self.connection, log, step);
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
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { site, connection, disk_space, .. } = self;
        let failed = |error| site.location.database_error(error);
        let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(failed)?;
        if reserve == Reserve::Keep && !disk_space.is_whole(&transaction).map_err(failed)? {
            return Err(site.location.full());
        }
        let transaction = FileTransaction::new(transaction, site);
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    pub(crate) fn has_long_log(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= LONG_LOG_PAGES
    }

    /// Copies the log into the database (a checkpoint), without delaying writers. Only a log that
    /// was copied to its end starts again from its beginning.
    pub(crate) fn shorten_log(&self) -> Result<(), StoreError> {
        self.log_pages.store(0, Ordering::Relaxed);
        self.pragma("PRAGMA wal_checkpoint(PASSIVE)", |_| Ok(()))
    }

    fn pragma<T>(
        &self,
        sql: &str,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.connection.query_row(sql, [], read);
        done.map_err(|error| self.site.location.database_error(error))
    }
}

fn connect(path: &Path, log_pages: Arc<AtomicU32>) -> rusqlite::Result<Connection> {
    // SQLITE_OPEN_CREATE is missing, because the file exists already, with the right mode. SQLite
    // need not lock the connection itself, because one thread at a time uses it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // SQLite waits for the disk when it copies the log, not at every commit. A power cut then costs
    // the last transactions, but never the file's integrity (which OFF would risk). Nothing that
    // matters is lost: a restart ends all leases, and tokens continue from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Without this, the last process that closes the database copies the log, and each short
    // command waits for the disk.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // This replaces SQLite's own copying of the log, which happens in the middle of a commit.
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(connection)
}
