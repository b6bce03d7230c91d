//! The transactions that hold a name back: open transactions that have passed `fence`.

use leasehold_core::{LockName, StoreError, StoreErrorKind};

use super::connection::Sessions;

/// Describes the transactions that hold back a name, as far as the server tells about them.
pub(super) async fn find(sessions: &Sessions, name: &LockName) -> Vec<String> {
    let values = values![TEXT name.as_str()];
    let rows = sessions.query("SELECT leasehold.held_back_4($1)", &values).await;
    rows.unwrap_or_default().iter().map(|row| row.get(0)).collect()
}

/// The error for a step on a name that is held back.
pub(super) async fn refusal(sessions: &Sessions, name: &LockName) -> StoreError {
    let mut text = format!("{}: held back by an open transaction on its fence", name.as_str());
    // The transaction may have ended since.
    let found = find(sessions, name).await;
    if !found.is_empty() {
        text = format!("{text} ({})", found.join("; "));
    }
    StoreError::new(StoreErrorKind::Timeout, text)
}
