//! Tables of other crates in the database of a store.

use leasehold_core::StoreError;
use rusqlite::Transaction;

use super::writing::Writing;

/// A transaction under way: see [`File::transact`](super::File::transact).
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
