//! What is looked at on each connecting: what weakens a promise is a warning, and what would be a
//! promise of nothing is refused.

use leasehold_core::{StoreError, StoreErrorKind};

use super::facts::Facts;
use crate::store::finding::{Finding, Level};
use crate::store::postgres::connection::Sessions;
use crate::store::postgres::options::Settings;
use crate::store::warnings::Warnings;

/// Looks at the server's settings.
pub(crate) async fn check(
    sessions: &Sessions,
    settings: &Settings,
    warnings: &Warnings,
) -> Result<(), StoreError> {
    let facts = Facts::read(sessions, settings).await?;
    if settings.commit.needs_standby() && facts.standbys.is_empty() {
        let text = no_standby(&facts.place, settings).to_string();
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

/// Without a setting on the server, a commit waits for nobody, whatever the client asks for.
pub(super) fn no_standby(place: &str, settings: &Settings) -> Finding {
    Finding::danger(
        place,
        "standbys",
        format!("commit={} and no synchronous_standby_names", settings.commit.as_str()),
        "a commit waits for no standby",
        "set synchronous_standby_names on the server, or leave `commit` out",
    )
}
