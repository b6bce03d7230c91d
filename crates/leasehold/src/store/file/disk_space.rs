//! Disk space that is set aside, so that held leases can be renewed and released when the disk is
//! full.
//!
//! - The database's file is always longer than the database, by [`RESERVE`] pages at least, and no
//!   transaction makes the database longer than its file. So all committed pages can be copied from
//!   the log without more space, and then the log starts again from its beginning.
//! - A new log is already made long enough for the pages that are set aside.
//! - A request for a new lease is refused if the file cannot be made that long. Releases and
//!   renewals may use all of the reserve. Most of them need none of it, because a record changes in
//!   place.

use std::fs::OpenOptions;
use std::path::Path;

use rusqlite::{Connection, FileControl, Transaction};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::users::Lengths;

/// The number of pages that are set aside: 64, which is 256 KiB. The release of a name takes a few
/// of them at most: none, unless its record or the rows next to it need another page.
pub(crate) const RESERVE: u64 = 64;

/// The least growth of the file, in pages: the size of the reserve.
const STEP: u64 = RESERVE;

/// The largest growth of the file in one attempt, for one transaction, in pages: 1 GiB.
const MAX_STEP: u64 = 1 << 18;

/// The least length of the log: 512 KiB, more than the pages that are set aside.
const LOG: u64 = 512 << 10;

/// Whether a transaction may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The operation asks for something new, and must not use the reserve.
    Keep,
    /// The operation ends or renews something, and may use the reserve.
    Use,
}

/// The disk space of one database.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    page: u64,
    lengths: Lengths,
}

impl DiskSpace {
    pub(crate) fn new(connection: &Connection) -> rusqlite::Result<Self> {
        // Without this, SQLite would remove the log when the last connection closes the database.
        connection.file_control(None::<&str>, FileControl::PersistWal(&mut 1))?;
        let page = connection.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0))?;
        Ok(Self { page: page.into(), lengths: Lengths::default() })
    }

    /// Records the present lengths of the files: another process may have made them longer.
    pub(crate) fn note(
        &mut self,
        connection: &Connection,
        lengths: Lengths,
    ) -> rusqlite::Result<()> {
        if lengths.database != self.lengths.database {
            // SQLite cuts the file to a multiple of this when it has copied the log.
            set_chunk(connection, lengths.database)?;
            let pages = u32::try_from(lengths.database / self.page).unwrap_or(u32::MAX);
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        self.lengths = lengths;
        Ok(())
    }

    /// Whether no part of the reserve is in use.
    pub(crate) fn is_whole(&self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        let mut statement = transaction.prepare_cached("PRAGMA page_count")?;
        let pages: u32 = statement.query_row([], |row| row.get(0))?;
        let needed = (u64::from(pages) + RESERVE) * self.page;
        Ok(self.lengths.database >= needed && self.lengths.log >= LOG)
    }

    /// Makes the files longer, the database's by at least `step` pages. Returns whether there was
    /// room for that; if not, the files may grow by less.
    pub(crate) fn grow(&self, connection: &Connection, log: &Path, step: u64) -> bool {
        let pages = self.lengths.database / self.page + step;
        let Ok(mut bytes) = i64::try_from(pages * self.page) else { return false };
        let has_grown = set_chunk(connection, STEP * self.page).is_ok()
            && connection.file_control(None::<&str>, FileControl::SizeHint(&mut bytes)).is_ok()
            && grow_log(log).is_ok();
        // Without this, SQLite would cut the reserve off when it next copies the log.
        set_chunk(connection, self.lengths.database).is_ok() && has_grown
    }
}

/// The growth of the file in each attempt, in pages.
pub(crate) fn steps() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(STEP), |step| Some(step * 8)).take_while(|step| *step <= MAX_STEP)
}

fn set_chunk(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    // SQLite takes an `i32`, so a file of 2 GiB or more has chunks of 1 MiB. It is cut to the pages
    // in use, and made longer again when necessary.
    let mut chunk = i32::try_from(bytes).unwrap_or(1 << 20);
    connection.file_control(None::<&str>, FileControl::ChunkSize(&mut chunk))
}

/// Makes the log longer. Zeros at its end are not part of the log.
fn grow_log(path: &Path) -> std::io::Result<()> {
    let log = OpenOptions::new().write(true).open(path)?;
    if log.metadata()?.len() >= LOG {
        return Ok(());
    }
    match fallocate(&log, FallocateFlags::empty(), 0, LOG) {
        // This file system cannot allocate space in advance.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => log.set_len(LOG),
        done => Ok(done?),
    }
}
