//! What the server's standbys mean for a promotion, and for grants before it.

use super::facts::Facts;
use crate::store::finding::{Finding, Topic};
use crate::store::postgres::options::PostgresOptions;

const TOPIC: &str = "standbys";

/// Compares the standbys with `quarantine`.
pub(super) fn of_standbys(facts: &Facts, settings: &PostgresOptions) -> Finding {
    let topic = Topic(&facts.place, TOPIC);
    let Facts { standbys_wanted: wanted, standbys_there: there, .. } = *facts;
    match wanted {
        1.. if there.is_some_and(|there| there < wanted) => topic.danger(
            format!("{} of {wanted} synchronous standbys are there", there.unwrap_or(0)),
            "each grant waits for the others, so nothing is locked meanwhile",
            "start them, or take them out of synchronous_standby_names",
        ),
        1.. => topic.ok("each grant is at the standby before its answer"),
        _ if facts.followers > 0 && settings.quarantine().is_none() => topic.warning(
            "a standby follows the server, and no grant waits for it",
            "a promotion forgets the last grants, and others are let in",
            "leave quarantine=off out, or set synchronous_standby_names",
        ),
        _ => topic.ok("no standby is waited for"),
    }
}
