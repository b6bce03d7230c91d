//! The record of a name in its row. A hold that nobody awaits is in the columns; any other record
//! is its text.

use leasehold_core::model::text::{self, UnreadableRecord};
use leasehold_core::model::{Gate, Record, State};
use leasehold_core::{LockName, Now, StoreError, StoreErrorKind};
use tokio_postgres::Row;

/// What a row says about the record, in the columns of the same names.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) hold: Option<String>,
    pub(crate) record: Option<String>,
    /// From then on nothing of the record counts, unless something changes.
    pub(crate) free_from_us: i64,
    /// Until then the name is in use, unless something changes.
    pub(crate) used_until_us: i64,
}

impl Columns {
    pub(crate) fn of(record: &Record) -> Self {
        if record.is_empty() {
            return Self::default();
        }
        let (used_until_us, free_from_us) = ends(record);
        let mut columns = Self { free_from_us, used_until_us, ..Self::default() };
        let is_alone = record.queue.is_empty() && record.closed.is_empty() && record.last.is_none();
        match &record.gate {
            Some(gate @ Gate { state: State::Held(hold), .. })
                if is_alone && hold.token.is_some() =>
            {
                columns.hold = Some(text::gate(&gate.state, 0));
            }
            _ => columns.record = Some(record.to_text()),
        }
        columns
    }
}

/// Reads the record of a row; an empty record if the name has no row.
pub(crate) fn read(name: &LockName, row: &Row) -> Result<Record, StoreError> {
    let (hold, record): (Option<&str>, Option<&str>) = (row.get("hold"), row.get("record"));
    let read = match (hold, record) {
        (_, Some(text)) => Record::from_text(text),
        (None, None) => Ok(Record::default()),
        (Some(hold), None) => held(hold, row.get("free_from_us")).ok_or(UnreadableRecord::Damaged),
    };
    read.map_err(|unreadable| {
        let kind = match unreadable {
            UnreadableRecord::Version(_) => StoreErrorKind::Version,
            _ => StoreErrorKind::Corrupt,
        };
        let text = format!(
            "{unreadable}: {:?}; with nobody at work, delete its row in the table `lease`, or use \
             the release of leasehold that has written it",
            name.as_str()
        );
        StoreError::new(kind, text)
    })
}

/// The record of a hold that the columns say.
fn held(hold: &str, free_from_us: i64) -> Option<Record> {
    let state = text::read_gate(hold)?;
    let until_ms = u64::try_from(free_from_us).ok()?.checked_div(1_000)?.checked_sub(1)?;
    Some(Record { gate: Some(Gate { state, until_ms }), ..Record::default() })
}

/// Until when the name is in use, and until when anything of its record counts, unless something
/// changes: in µs.
fn ends(record: &Record) -> (i64, i64) {
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
    let last_ms = record.last.as_ref().map_or(0, |last| last.until_ms + 1);
    let kept_ms = used_ms.max(gate_ms).max(record.closed_until_ms + 1).max(last_ms);
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
