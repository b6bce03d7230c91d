//! The checks on connecting: a setting that weakens a promise gets a warning.

use leasehold_core::StoreError;

use super::facts::Facts;
use crate::store::finding::Level;
use crate::store::postgres::connection::Sessions;
use crate::store::postgres::options::PostgresOptions;
use crate::store::warnings::Warnings;

/// Checks the server's settings.
pub(crate) async fn check(
    sessions: &Sessions,
    settings: &PostgresOptions,
    warnings: &Warnings,
) -> Result<(), StoreError> {
    let facts = Facts::read(sessions, settings).await?;
    let memory = super::of_memory(&facts.place, sessions, settings);
    for finding in super::of_server(&facts, settings).into_iter().chain(memory) {
        if finding.level != Level::Ok {
            warnings.add(finding.to_string());
        }
    }
    Ok(())
}
