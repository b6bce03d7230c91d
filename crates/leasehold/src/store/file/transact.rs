//! Tables of other crates in the database of a store.

use leasehold_core::StoreError;
use rusqlite::Transaction;

use super::File;
use super::writing::Writing;

impl File {
    /// Does `work` in one transaction on the database of this store, in its turn among all who use
    /// the store: all of it or nothing, and never at the same time as an operation on a lock. It
    /// survives what the locks survive. What it keeps is its own: in tables with a prefix of their
    /// own, of which the store knows nothing.
    ///
    /// `work` may be done several times, of which one counts: where the disk is full, another
    /// attempt is made after some room was found. Let it be short, since all locks wait meanwhile.
    ///
    /// For a crate that is released together with this one, as `leasehold-data` is: the version of
    /// `rusqlite` is part of what [`FileTransaction::sql`] takes.
    ///
    /// # Errors
    ///
    /// What `work` returns. [`Full`](leasehold_core::StoreErrorKind::Full) where only the room is
    /// left that is kept for renewals and releases; otherwise as an operation on a lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the work is done.
    pub async fn transact<T: Send + 'static>(
        &self,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.executor.transact(work).await
    }
}

/// A transaction under way: see [`File::transact`].
pub struct FileTransaction<'a> {
    pub(super) writing: &'a Writing<'a>,
    pub(super) now_us: u64,
}

impl FileTransaction<'_> {
    /// What time it is by the store's wall clock, in microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Runs some SQL.
    ///
    /// # Errors
    ///
    /// What the SQL fails with, as an error of this store.
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
