//! The record of a name in its row. A hold and its queue, or one reader, are in two columns, in the
//! words of the record's text. So the thin statements can write them. Any other record is its text.

use leasehold_core::model::{Gate, Record, State, text};
use leasehold_core::{LockName, Now, StoreError, StoreErrorKind};
use tokio_postgres::Row;

use crate::store::unreadable;

/// What a row says about the record, in the columns of the same names.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) hold: Option<String>,
    pub(crate) queue: Option<Vec<String>>,
    pub(crate) record: Option<String>,
    /// From then on nothing of the record counts, unless something changes.
    pub(crate) free_from_us: i64,
    /// With a `hold`, the end of the gate. With a `record`, the name is in use until then, unless
    /// something changes.
    pub(crate) used_until_us: i64,
}

impl Columns {
    pub(crate) fn of(record: &Record) -> Self {
        if record.is_empty() {
            return Self::default();
        }
        let (used_until_us, free_from_us) = ends(record);
        let Record { gate, queue, shares, closed, last, .. } = record;
        let is_reader = shares.len() == 1 && queue.is_empty();
        let gate = gate.as_ref().filter(|Gate { state, .. }| {
            closed.is_empty()
                && last.is_none()
                && match state {
                    State::Awaited(_) | State::Held(_) => shares.is_empty(),
                    State::Shared { .. } => is_reader,
                    State::Closed | State::Cooling { .. } | State::Revoked(_) => false,
                }
        });
        let text = record.to_text();
        let Some(Gate { state, until_ms }) = gate else {
            return Self { record: Some(text), used_until_us, free_from_us, ..Self::default() };
        };
        // The first lines are the version and the gate.
        let lines: Vec<_> = text.split('\n').skip(2).map(str::to_owned).collect();
        Self {
            hold: Some(text::gate(state, 0)),
            queue: Some(lines).filter(|lines| !lines.is_empty()),
            used_until_us: us(until_ms + 1),
            free_from_us,
            record: None,
        }
    }
}

/// Reads the record of a row; an empty record if the name has no row.
pub(crate) fn read(name: &LockName, row: &Row) -> Result<Record, StoreError> {
    let (hold, record): (Option<&str>, Option<&str>) = (row.get("hold"), row.get("record"));
    let read = match (hold, record) {
        (_, Some(text)) => Record::from_text(text),
        (None, None) => return Ok(Record::default()),
        (Some(hold), None) => {
            let until_ms = row.get::<_, i64>("used_until_us") / 1_000 - 1;
            let waits: Option<Vec<&str>> = row.get("queue");
            let gate = format!("{}\ngate {until_ms} {hold}", Record::default().to_text());
            let lines = [vec![gate.as_str()], waits.unwrap_or_default()].concat();
            Record::from_text(&lines.join("\n"))
        }
    };
    read.map_err(|why| unreadable::error(name, "`lease`", why))
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
    (us(used_ms), us(kept_ms))
}

fn us(ms: u64) -> i64 {
    i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

pub(crate) fn now(us: i64) -> Result<Now, StoreError> {
    let us = u64::try_from(us).map_err(|_| damaged("the clock"))?;
    Ok(Now { lease_us: us, token_us: us })
}

pub(crate) fn damaged(what: &str) -> StoreError {
    let text = format!("{what} in the database is not what it should be");
    StoreError::new(StoreErrorKind::Corrupt, text)
}
