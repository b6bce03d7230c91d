//! Records that cannot be read, for stores that keep each as a text in a row of a table.

use std::error::Error as _;

use leasehold_core::model::UnreadableRecord;
use leasehold_core::{LockName, Refusal, StoreError, StoreErrorKind};

/// The error for the record of a name. Its source says why.
pub(crate) fn error(name: &LockName, table: &str, why: UnreadableRecord) -> StoreError {
    let kind = match why {
        UnreadableRecord::Version(_) => StoreErrorKind::Version,
        _ => StoreErrorKind::Corrupt,
    };
    let text = format!(
        "{why}: {:?}; with nobody at work, delete its row in the table {table}, or use the release \
         of leasehold that has written it",
        name.as_str()
    );
    StoreError::new(kind, text).with_source(why)
}

/// The reply to a renewal that has failed with that error. It concerns this lease only, and no
/// other lease that is renewed with it.
pub(crate) fn refusal(error: &StoreError) -> Option<Refusal> {
    let why: &UnreadableRecord = error.source()?.downcast_ref()?;
    Some(why.refusal())
}
