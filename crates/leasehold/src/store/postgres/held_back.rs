//! The transactions that hold a name back: open transactions that have passed `fence`.

use std::fmt;
use std::time::Duration;

use leasehold_core::{LockName, StoreError, StoreErrorKind};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Sessions;
use super::schema::Statements;

/// One transaction that holds a name back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HolderBack {
    pub(super) name: String,
    /// The process of the transaction's session; a prepared transaction has none.
    pid: Option<i32>,
    application: Option<String>,
    open: Option<Duration>,
}

impl HolderBack {
    fn read(row: &Row) -> Self {
        let micros: Option<i64> = row.get(3);
        let micros = micros.and_then(|us| u64::try_from(us).ok());
        Self {
            name: row.get(0),
            pid: row.get(1),
            application: row.get(2),
            open: micros.map(Duration::from_micros),
        }
    }
}

impl fmt::Display for HolderBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else { return f.write_str("a prepared transaction") };
        write!(f, "process {pid} of the server")?;
        if let Some(application) = self.application.as_deref().filter(|name| !name.is_empty()) {
            write!(f, ", application {application:?}")?;
        }
        match self.open {
            Some(open) => write!(f, ", open for {} s", open.as_secs()),
            None => Ok(()),
        }
    }
}

/// Finds the transactions that hold back some names, or any name.
pub(super) async fn find(
    (sessions, statements): (&Sessions, &Statements),
    names: Option<&[LockName]>,
) -> Result<Vec<HolderBack>, StoreError> {
    let names: Option<Vec<&str>> = names.map(|names| names.iter().map(LockName::as_str).collect());
    let values = [(&names as _, Type::TEXT_ARRAY)];
    let rows = sessions.query(&statements.held_back, &values).await?;
    Ok(rows.iter().map(HolderBack::read).collect())
}

/// The error for a step on names that are held back.
pub(super) async fn refusal(
    (sessions, statements): (&Sessions, &Statements),
    names: &[LockName],
) -> StoreError {
    let listed: Vec<_> = names.iter().map(LockName::as_str).collect();
    let listed = listed.join(", ");
    // The transaction may have ended since.
    let found = find((sessions, statements), Some(names)).await.unwrap_or_default();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    let by = match found.is_empty() {
        true => String::new(),
        false => format!(" ({})", found.join("; ")),
    };
    let text = format!("{listed}: held back by an open transaction on its fence{by}");
    StoreError::new(StoreErrorKind::Timeout, text)
}
