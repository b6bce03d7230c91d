//! Disk space that is set aside, so that held leases can be renewed and released when the disk is
//! full.
//!
//! - [`RESERVE`] pages of the database at least are free, and no transaction makes the database
//!   longer than its file. So all committed pages can be copied from the log without more space,
//!   and then the log starts again from its beginning.
//! - A new log is already made long enough for the pages that are set aside.
//! - A request for a new lease is refused if the database cannot be made that long. Releases and
//!   renewals may use all of the reserve. Most of them need none of it, because a record changes in
//!   place.
//!
//! Free pages belong to the database, so SQLite does not cut them off its file when it has copied
//! the log.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, metadata};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use leasehold_core::{Action, Operation, Take};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::users::{FileId, Files, id};
use crate::mutex::Mutex;

/// The number of pages that are set aside: 64, which is 256 KiB. The release of a name takes a few
/// of them at most: none, unless its record or the rows next to it need another page.
pub(crate) const RESERVE: u64 = 64;

/// The growth of the database in each attempt, in pages: at first the size of the reserve, and for
/// one transaction 128 MiB at most.
pub(crate) const STEPS: [u64; 4] = [RESERVE, 512, 4096, 1 << 15];

/// The least length of the log: 512 KiB, more than the pages that are set aside. SQLite makes a
/// longer log this short when it starts again from its beginning.
pub(crate) const LOG: u64 = 512 << 10;

/// The databases that this process has open, with the number of its connections to each. Closing
/// such a file drops all locks of this process on it, also those of SQLite. So it is closed after
/// the last connection, and while nobody can open another.
static OPEN: Mutex<BTreeMap<FileId, (u64, File)>> = Mutex::new(BTreeMap::new());

/// Whether a transaction may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The operation asks for something new, and must not use the reserve.
    Keep,
    /// The operation ends or renews something, and may use the reserve.
    Use,
}

impl Reserve {
    /// Releases, renewals and waiters that ask again may use it; requests for something new may
    /// not.
    pub(crate) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::On {
                action: Action::Take(Take { place: None, from: None, .. }), ..
            } => Self::Keep,
            _ => Self::Use,
        }
    }
}

/// The disk space of one database. This value lives longer than the connection.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    page: u64,
    file: DatabaseFile,
    /// The lengths of the database and of its log, in bytes.
    database: u64,
    log: u64,
    /// Whether the file has all pages of the database.
    is_long_enough: bool,
}

impl DiskSpace {
    pub(crate) fn new(connection: &Connection, file: DatabaseFile) -> rusqlite::Result<Self> {
        number(connection, &format!("PRAGMA journal_size_limit = {LOG}"))?;
        let page = number(connection, "PRAGMA page_size")?;
        Ok(Self { page, file, database: 0, log: 0, is_long_enough: false })
    }

    /// Records the present lengths of the files: another process may have made them longer.
    pub(crate) fn note(&mut self, connection: &Connection, files: &Files) -> rusqlite::Result<()> {
        if files.database != self.database {
            let pages = files.database / self.page;
            self.is_long_enough = allow_pages(connection, pages)? == pages;
        }
        (self.database, self.log) = (files.database, files.log);
        Ok(())
    }

    /// Whether no part of the reserve is in use.
    pub(crate) fn is_whole(&self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        let is_free = number(transaction, "PRAGMA freelist_count")? >= RESERVE;
        Ok(is_free && self.is_long_enough && self.log >= LOG)
    }

    /// Gives the database `step` more free pages, and makes the log long enough. Returns `None` if
    /// there was no room for that; the files may have become longer all the same.
    pub(crate) fn grow(&self, connection: &Connection, log: &Path, step: u64) -> Option<()> {
        // A few more, which say where the free ones are.
        let step = step + step / 512 + 4;
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, behavior).ok()?;
        let used = number(&transaction, "PRAGMA page_count").ok()?;
        let pages = used.max(self.database / self.page) + step;
        // Once they are committed, they have to be copied.
        grow_file(&OPEN.lock().get(&self.file.0)?.1, pages * self.page).ok()?;
        // Zeros at the end of the log are not part of it.
        grow_file(&OpenOptions::new().write(true).open(log).ok()?, LOG).ok()?;
        allow_pages(&transaction, pages).ok()?;
        // Each page has four bytes that are not of the blob.
        let bytes = (step - 2) * (self.page - 4);
        let sql = "CREATE TABLE reserve AS SELECT zeroblob";
        let sql = format!("{sql}({bytes}); DROP TABLE reserve");
        transaction.execute_batch(&sql).ok()?;
        transaction.commit().ok()
    }
}

/// Lets the database have this many pages, or as many as it has already. Returns that number.
fn allow_pages(connection: &Connection, pages: u64) -> rusqlite::Result<u64> {
    number(connection, &format!("PRAGMA max_page_count = {}", pages.min(u32::MAX.into())))
}

fn number(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([], |row| row.get::<_, u32>(0)).map(u64::from)
}

/// The file of a database that this process has open.
#[derive(Debug)]
pub(crate) struct DatabaseFile(FileId);

impl DatabaseFile {
    /// Opens the file. The connection is opened later, and closed before this value is dropped.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut open = OPEN.lock();
        let id = id(&metadata(path)?);
        if open.get(&id).is_none() {
            open.insert(id, (0, OpenOptions::new().write(true).open(path)?));
        }
        open.entry(id).and_modify(|(connections, _)| *connections += 1);
        Ok(Self(id))
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        OPEN.lock().retain(|id, (connections, _)| {
            *connections -= u64::from(*id == self.0);
            *connections > 0
        });
    }
}

/// Writes zeros to the end of a file until it has this length at least.
fn grow_file(file: &File, length: u64) -> io::Result<()> {
    let zeros = [0; 1 << 14];
    let mut end = file.metadata()?.len();
    while end < length {
        // This may end beyond that length.
        file.write_all_at(&zeros, end)?;
        end += zeros.len() as u64;
    }
    Ok(())
}
