//! What is in the tables, for leasehold's own tests. It is no public API: any release may change
//! it.

use leasehold_core::model::Record;
use leasehold_core::{LockName, StoreError};
use tokio_postgres::Row;

/// The record that an answer of the function `read_1` says.
///
/// # Errors
///
/// It cannot be read.
pub fn record(name: &LockName, row: &Row) -> Result<Record, StoreError> {
    super::record::read(name, row, 1)
}
