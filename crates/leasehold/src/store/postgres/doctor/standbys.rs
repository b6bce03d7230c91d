//! What the server's standbys mean for a promotion, and for grants before it.

use super::facts::Facts;
use crate::store::finding::{Finding, Topic};
use crate::store::postgres::options::{CommitLevel, Settings};

const TOPIC: &str = "standbys";

/// Compares the standbys with `commit` and `quarantine`.
pub(super) fn of_standbys(facts: &Facts, settings: &Settings) -> Finding {
    let topic = Topic(&facts.place, TOPIC);
    let Facts { standbys_wanted: wanted, standbys_there: there, .. } = *facts;
    let waits = !matches!(settings.commit, CommitLevel::Off | CommitLevel::Local);
    match wanted {
        0 if settings.commit.needs_standby() => no_standby(&facts.place, settings),
        1.. if waits && there.is_some_and(|there| there < wanted) => topic.danger(
            format!("{} of {wanted} synchronous standbys are there", there.unwrap_or(0)),
            "each grant waits for the others, so nothing is locked meanwhile",
            "start them, or take them out of synchronous_standby_names",
        ),
        1.. if waits => topic.ok("each grant is at the standby before its answer"),
        _ if facts.followers > 0 && settings.quarantine().is_none() => topic.warning(
            "a standby follows the server, and no grant waits for it",
            "a promotion forgets the last grants, and others are let in",
            "leave quarantine=off out, or set synchronous_standby_names and leave `commit` out",
        ),
        _ => topic.ok("no standby is waited for"),
    }
}

/// The finding that the server has no synchronous standby: without a setting on the server, a
/// commit waits for nobody, whatever the client asks for.
pub(super) fn no_standby(place: &str, settings: &Settings) -> Finding {
    Topic(place, TOPIC).danger(
        format!("commit={} and no synchronous_standby_names", settings.commit.as_str()),
        "a commit waits for no standby",
        "set synchronous_standby_names on the server, or leave `commit` out",
    )
}
