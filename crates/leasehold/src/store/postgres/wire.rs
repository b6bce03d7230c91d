//! The content of the tables, for leasehold's own tests. It is not part of the public API: any
//! release may change it.

use leasehold_core::model::Record;
use leasehold_core::{LockName, StoreError};
use tokio_postgres::Row;

/// Reads the record in an answer of the function `read_2`.
///
/// # Errors
///
/// If the record cannot be read.
pub fn record(name: &LockName, row: &Row) -> Result<Record, StoreError> {
    super::record::read(name, row.get("record"))
}
