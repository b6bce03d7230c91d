//! The database of a store: one connection, and its transactions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::disk_space::{self, DatabaseFile, DiskSpace, Reserve};
use super::schema;
use super::transaction::{FileTransaction, Site};
use super::users::Files;

/// The longest wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait for the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The length of the log at which it is copied into the database: 2 MiB, half of SQLite's own
/// default. The copying waits for the disk, so no caller waits for it.
const LONG_LOG: u64 = 2 << 20;

/// One connection to the database.
#[derive(Debug)]
pub(crate) struct Database {
    site: Arc<Site>,
    connection: Connection,
    /// The length of the log when it was last copied. It becomes shorter when somebody has written
    /// to it again.
    copied: u64,
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
        let file = DatabaseFile::open(&location.database)
            .map_err(|error| location.io_error("open it", error))?;
        let mut connection = connect(&location.database).map_err(failed)?;
        schema::prepare(&mut connection, location)?;
        let disk_space = DiskSpace::new(&connection, file).map_err(failed)?;
        let found = Files::at(location);
        let (files, lengths) = found.map_err(|error| location.io_error("look at it", error))?;
        let site = Arc::clone(site);
        let mut database = Self { site, connection, copied: 0, files, disk_space, may_wait: true };
        // SQLite reads and checks all of a log that nobody has open, at some 3 µs a page. If only
        // short commands use the store, each of them finds the log in this state.
        if is_alone && lengths.log > disk_space::LOG {
            database.shorten_log()?;
        }
        Ok(database)
    }

    /// Checks that the paths still lead to the open files. A database that was removed or replaced
    /// must not be used any more: others may have made a new one under its path.
    fn check_files(&mut self) -> Result<(), StoreError> {
        let location = &self.site.location;
        let lengths = self.files.check(location)?;
        if lengths.log < self.copied {
            self.copied = 0;
        }
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
        for step in disk_space::STEPS {
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
            if has_grown.is_none() {
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
        self.disk_space.lengths.log >= LONG_LOG.max(self.copied + 1)
    }

    /// Copies the log into the database (a checkpoint), without delaying writers. Only a log that
    /// was copied to its end starts again from its beginning.
    pub(crate) fn shorten_log(&mut self) -> Result<(), StoreError> {
        self.copied = self.disk_space.lengths.log;
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        done.map_err(|error| self.site.location.database_error(error))
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // SQLITE_OPEN_CREATE is missing, because the file exists already, with the right mode. SQLite
    // need not lock the connection itself, because one thread at a time uses it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // SQLite waits for the disk when it copies the log, not at every commit. A power cut then costs
    // the last transactions, but never the file's integrity (which OFF would risk). Nothing that
    // matters is lost: a restart ends all leases, and tokens continue from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Without this, the last process that closes the database copies the log, and each short
    // command waits for the disk. SQLite would then also remove the log.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // The log is copied by the thread of the store, and not in the middle of a commit.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}
