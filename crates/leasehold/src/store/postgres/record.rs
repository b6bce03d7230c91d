//! The record of a name in its row, as text.

use leasehold_core::model::{Gate, Record, State, UnreadableRecord};
use leasehold_core::{LockName, Now, StoreError, StoreErrorKind};

/// Reads the record of a row; an empty record if the name has no row.
pub(crate) fn read(name: &LockName, text: Option<&str>) -> Result<Record, StoreError> {
    let Some(text) = text else { return Ok(Record::default()) };
    Record::from_text(text).map_err(|unreadable| {
        let kind = match unreadable {
            UnreadableRecord::Version(_) => StoreErrorKind::Version,
            _ => StoreErrorKind::Corrupt,
        };
        let text = format!(
            "{unreadable}: {:?}; with nobody at work, delete its rows in the tables `lock` and \
             `token`, or use the release of leasehold that has written them",
            name.as_str()
        );
        StoreError::new(kind, text)
    })
}

/// Until when the name is in use, and until when anything of its record counts, unless something
/// changes: in µs.
pub(crate) fn ends(record: &Record) -> (i64, i64) {
    let (used_ms, gate_ms) = match &record.gate {
        None => (0, 0),
        Some(Gate { state, until_ms }) => match state {
            State::Closed => (0, *until_ms),
            State::Cooling { until_ms: free_ms, .. } => (*free_ms, *until_ms + 1),
            State::Awaited(_) | State::Held(_) | State::Revoked(_) | State::Shared { .. } => {
                (*until_ms + 1, *until_ms + 1)
            }
        },
    };
    let queue_ms = if record.queue.is_empty() { 0 } else { record.queue_until_ms + 1 };
    let used_ms = used_ms.max(queue_ms);
    let kept_ms = used_ms.max(gate_ms).max(record.closed_until_ms + 1);
    let us = |ms: u64| i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    (us(used_ms), us(kept_ms))
}

pub(crate) fn now(us: i64) -> Result<Now, StoreError> {
    let us = u64::try_from(us).map_err(|_| damaged("the clock"))?;
    Ok(Now { lease_us: us, token_us: us })
}

pub(crate) fn damaged(what: &str) -> StoreError {
    let text = format!("{what} in the database is not what it should be");
    StoreError::new(StoreErrorKind::Corrupt, text)
}
