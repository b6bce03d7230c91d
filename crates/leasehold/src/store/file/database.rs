//! The database of a store: how it is opened, and its transactions. Each takes the write lock.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Answer, Clock, Error, Operation, Reply, StoreError, StoreErrorKind, model};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::access::Access;
use super::disk_space::{self, DatabaseFile, DiskSpace, Reserve};
use super::error::{FORKED, FULL};
use super::liveness::Liveness;
use super::location::Location;
use super::schema;
use super::side::Side;
use super::transaction::{FileTransaction, Site};
use super::users::{self, Files, Users};
use crate::process::PerProcess;

/// The longest wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait for the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The length of the log, in pages, at which a commit copies it into the database: 2 MiB, half of
/// SQLite's own default.
const LONG_LOG: u32 = 512;

/// This value has a clone for each file store that the process has open.
static OPEN: PerProcess<Arc<()>> = PerProcess::new();

/// One connection to the database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) site: Arc<Site>,
    connection: Connection,
    /// The files to which the paths led when the database was opened.
    files: Files,
    disk_space: DiskSpace,
    /// This field is dropped after the connection: others must not make another database before the
    /// connection is closed.
    _users: Users,
    /// A clone of [`OPEN`], which keeps forked children from opening a file store.
    _open: Arc<()>,
    /// The time of the next tidying, by the lease clock.
    pub(crate) tidy_at_us: u64,
}

impl Database {
    /// Opens the database and creates the missing parts.
    pub(crate) fn open(path: &Path, boot: String, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let location = Location::check(path)?;
        refuse_in_child(&location)?;
        schema::refuse_others_files(&location)?;
        let access = location.io(Access::of(&location.database))?;
        let side = Side::open(&location, access)?;
        let users = location.io(Users::open(&location, &boot))?;
        let turn = location.io(side.turn())?;
        let are_others = users.agree(&location)?;
        location.create_database()?;
        let open = Arc::clone(OPEN.this());
        let file = location.io(DatabaseFile::open(&location.database))?;
        let mut connection = location.sql(connect(&location.database))?;
        schema::prepare(&mut connection, &location)?;
        access.give_group(&location.log);
        access.give_group(&location.shared_memory);
        let disk_space = location.sql(DiskSpace::new(&connection, file))?;
        let mut files = location.io(Files::at(&location))?;
        // If its path leads to another file by now, the first transaction says so.
        files.ids[3] = users::id(&location.io(side.write_lock.metadata())?);
        location.io(users.join(&files))?;
        // SQLite reads and checks all of a log that nobody has open, at some 3 µs a page. If only
        // short commands use the store, each of them finds the log in this state.
        if !are_others && files.log > disk_space::LOG {
            location.sql(copy_log(&connection))?;
        }
        drop(turn);
        let liveness = Arc::new(Liveness::new(side));
        let site = Arc::new(Site { location, boot, clock, liveness });
        let (_users, _open, tidy_at_us) = (users, open, 0);
        Ok(Self { site, connection, files, disk_space, _users, _open, tidy_at_us })
    }

    /// Executes one operation, in one transaction. The messages are sent after the commit, and
    /// without the write lock: a client that is woken takes the write lock immediately.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let done = self.write(Reserve::of(operation), |transaction| {
            model::apply(&mut &*transaction, transaction.now, operation)
        });
        match operation {
            Operation::Keep(leases) if done.is_err() && self.is_replaced() => {
                // The holders must learn immediately that their leases are gone.
                let replies = leases.iter().map(|_| Reply::NotHeld).collect();
                Ok(Answer::new(self.site.now(), Reply::Many(replies)))
            }
            _ => Ok(self.site.deliver(done?)),
        }
    }

    /// Does some work in the turn of this process, as all that make pipes must.
    pub(crate) fn in_turn<T>(
        &self,
        work: impl FnOnce(&Arc<Liveness>) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let Site { location, liveness, .. } = &*self.site;
        let _turn = location.io(liveness.side.turn())?;
        location.io(work(liveness))
    }

    /// Runs `work` in one transaction: all of it is done, or nothing. If there is no room for it at
    /// first, `work` runs again.
    pub(crate) fn write<T>(
        &mut self,
        reserve: Reserve,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let site = Arc::clone(&self.site);
        let _turn = site.location.io(site.liveness.side.turn())?;
        self.check_files()?;
        for step in disk_space::STEPS {
            match self.try_write(reserve, &work) {
                Err(error) if error.kind() == StoreErrorKind::Full => {}
                done => return done,
            }
            let has_grown = self.disk_space.grow(&self.connection, &site.location.log, step);
            self.check_files()?;
            // A log that was copied starts again from its beginning, and needs no more disk space.
            // If it cannot be copied, the next attempt fails like this one.
            let _ = copy_log(&self.connection);
            if has_grown.is_none() {
                break;
            }
        }
        self.try_write(reserve, &work)
    }

    fn try_write<T>(
        &self,
        reserve: Reserve,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let location = &self.site.location;
        let begun = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        let transaction = location.sql(begun)?;
        if reserve == Reserve::Keep && !location.sql(self.disk_space.is_whole(&transaction))? {
            return Err(location.error(FULL));
        }
        let transaction = FileTransaction::new(transaction, &self.site);
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Checks that the paths still lead to the open files. A database that was removed or replaced
    /// must not be used any more: others may have made a new one under its path.
    fn check_files(&mut self) -> Result<(), StoreError> {
        let location = &self.site.location;
        let files = self.files.check(location)?;
        location.sql(self.disk_space.note(&self.connection, &files))
    }

    /// Whether the paths lead to other files than the open ones, or to none.
    fn is_replaced(&self) -> bool {
        let found = self.files.check(&self.site.location);
        found.is_err_and(|error| error.kind() == StoreErrorKind::Corrupt)
    }
}

/// Refuses to open a store if the parent of this process had one open at the fork. A fork copies
/// SQLite's view of its file locks, but not the locks. So the child would write without locks and
/// believe that it has them, and would undo locks that others rely on. No other process would
/// notice.
fn refuse_in_child(location: &Location) -> Result<(), StoreError> {
    let is_open = OPEN.of_parents().any(|open| Arc::strong_count(open) > 1);
    if is_open { Err(location.error(FORKED)) } else { Ok(()) }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // SQLITE_OPEN_CREATE is missing, because the file exists already, with the right mode. SQLite
    // need not lock the connection itself, because one thread uses it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // SQLite waits for the disk when it copies the log, not at every commit. A power cut then costs
    // the last transactions, but never the file's integrity (which OFF would risk). Nothing that
    // matters is lost: a restart ends all leases, and tokens continue from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LONG_LOG)?;
    // Without this, the last process that closes the database copies the log, and each short
    // command waits for the disk. SQLite would then also remove the log.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Copies the log into the database (a checkpoint). Only a log that was copied to its end starts
/// again from its beginning.
pub(crate) fn copy_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
