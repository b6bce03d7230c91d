//! The checks on connecting: a setting that weakens a promise gets a warning, and a setting that
//! would make a promise empty is refused.

use leasehold_core::{StoreError, StoreErrorKind};

use super::facts::Facts;
use crate::store::finding::Level;
use crate::store::postgres::connection::Sessions;
use crate::store::postgres::options::Settings;
use crate::store::warnings::Warnings;

/// Checks the server's settings.
pub(crate) async fn check(
    sessions: &Sessions,
    settings: &Settings,
    warnings: &Warnings,
) -> Result<(), StoreError> {
    let facts = Facts::read(sessions, settings).await?;
    if settings.commit.needs_standby() && facts.standbys_wanted == 0 {
        let text = super::standbys::no_standby(&facts.place, settings).to_string();
        return Err(StoreError::new(StoreErrorKind::Unsupported, text));
    }
    let memory = super::of_memory(&facts.place, sessions, settings);
    for finding in super::of_server(&facts, settings).into_iter().chain(memory) {
        if finding.level != Level::Ok {
            warnings.add(finding.to_string());
        }
    }
    Ok(())
}
