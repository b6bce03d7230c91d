//! The clocks of servers, compared with each other and with this machine's clock.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::model::BALLOT_LEAD;
use leasehold_core::text::show_duration;
use leasehold_core::{Clock as _, StoreError, StoreErrorKind};
use redis::FromRedisValue;
use tokio::time::timeout;

use super::connection::Connection;
use super::connection::dial::Dialer;
use super::options::{Address, RedisOptions};
use crate::clock::SystemClock;
use crate::store::finding::{Finding, Topic};
use crate::store::options::OFFSET;

/// A difference between clocks that is reported: 1 s, far above what NTP leaves.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Half of what clocks of servers may differ that take over from each other.
const HALF_OFFSET: Duration = Duration::from_millis(OFFSET.as_millis() as u64 / 2);

/// What a difference between clocks breaks: from which difference on it is a warning, and the
/// risk; then the same for a danger.
type Limits = [(Duration, &'static str); 2];

/// Leases do not depend on the clock of this machine.
pub(crate) const OF_THIS_MACHINE: Limits = [
    (NOTICEABLE, "times do not compare, and tokens after lost data may not grow"),
    (Duration::MAX, ""),
];

/// The nodes of a quorum keep the last token for a while, which is long enough up to
/// [`BALLOT_LEAD`]. Beyond that, nodes refuse each other's tokens.
pub(crate) const OF_NODES: Limits = [
    (NOTICEABLE, "tokens need a second round trip, and run ahead of the clock"),
    (BALLOT_LEAD, "one refuses tokens that the other has granted, so its vote is missing"),
];

/// Servers that take over from each other keep the ends of leases.
const OF_SUCCESSORS: Limits = [
    (HALF_OFFSET, "500ms is allowed: if they drift further apart, leases end early"),
    (OFFSET, "500ms is allowed: leases end early after a takeover, and two may hold one lock"),
];

/// The clock of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    pub(crate) server: String,
    /// How many seconds the server's clock is ahead of this machine's, or behind if negative.
    ahead: f64,
    /// The possible error in seconds: half of the round trip.
    error: f64,
}

impl ServerClock {
    /// Reads the server's clock; `None` if the user may not.
    pub(crate) async fn read(
        connection: &Connection,
        limit: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let before_us = SystemClock::new().wall_us();
        let value = match connection.ask_within(limit, &redis::cmd("TIME")).await {
            Err(error) if error.kind() == StoreErrorKind::Denied => return Ok(None),
            outcome => outcome?,
        };
        let error = SystemClock::new().wall_us().saturating_sub(before_us) as f64 / 2e6;
        let Ok((seconds, micros)) = <(u64, u64)>::from_redis_value(value) else { return Ok(None) };
        let there = seconds as f64 + micros as f64 / 1e6;
        let ahead = there - before_us as f64 / 1e6 - error;
        let server = connection.server().to_owned();
        Ok(Some(Self { server, ahead, error }))
    }

    /// Reads the clocks of servers, all at the same time. Servers that do not answer within the
    /// timeout of a request are left out.
    async fn read_all(settings: &RedisOptions, servers: &[Address]) -> Vec<Self> {
        let Ok(dialer) = Dialer::new(settings) else { return Vec::new() };
        let limit = settings.timeout();
        let each = servers.iter().map(|address| async {
            let reading = async {
                let connection = dialer.dial(address, None).await.ok()?;
                Self::read(&connection, limit).await.ok()?
            };
            timeout(limit, reading).await.ok()?
        });
        join_all(each).await.into_iter().flatten().collect()
    }

    /// The clock of this machine, by which all clocks are compared.
    pub(crate) fn of_this_machine() -> Self {
        Self { server: "this machine".to_owned(), ahead: 0.0, error: 0.0 }
    }
}

/// The finding about servers that may take over from each other, unless a quarantine comes first.
pub(crate) async fn of_successors(
    settings: &RedisOptions,
    mut clocks: Vec<ServerClock>,
    followers: &[Address],
) -> Option<Finding> {
    if settings.quarantine().is_some() {
        return None;
    }
    clocks.extend(ServerClock::read_all(settings, followers).await);
    compare(&settings.servers.to_string(), &clocks, &OF_SUCCESSORS)
}

/// The finding about the two clocks with the largest difference; `None` if there is one clock only.
pub(crate) fn compare(place: &str, clocks: &[ServerClock], limits: &Limits) -> Option<Finding> {
    let by_time = |one: &&ServerClock, other: &&ServerClock| one.ahead.total_cmp(&other.ahead);
    let behind = clocks.iter().min_by(by_time)?;
    let ahead = clocks.iter().max_by(by_time).filter(|_| clocks.len() > 1)?;
    let (apart, error) = (ahead.ahead - behind.ahead, ahead.error + behind.error);
    let (topic, server, other) = (Topic(place, "clock"), &ahead.server, &behind.server);
    let shown = |ms: f64| show_duration(Duration::from_millis(ms.ceil() as u64));
    let found = format!("the clock of {server} is {} ahead of that of {other}", shown(apart * 1e3));
    let remedy = "run NTP on both, and until then keep a quarantine (quarantine=on)";
    let [warning, danger] =
        limits.map(|(limit, risk)| (apart - error > limit.as_secs_f64()).then_some(risk));
    Some(match (danger, warning) {
        (Some(risk), _) => topic.danger(found, risk, remedy),
        (None, Some(risk)) => topic.warning(found, risk, remedy),
        (None, None) => {
            let most = shown((apart + error) * 1e3);
            topic.ok(format!("the clocks of {server} and {other} are within {most}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn clocks_further_apart_than_is_allowed_are_a_danger_and_from_half_of_it_a_warning() {
        let clock = |(server, ahead): &(&str, f64)| ServerClock {
            server: (*server).to_owned(),
            ahead: *ahead,
            error: 0.001,
        };
        let found = |clocks: &[(&str, f64)]| {
            let clocks: Vec<_> = clocks.iter().map(clock).collect();
            let finding = compare("h", &clocks, &OF_SUCCESSORS)?;
            Some((finding.level, finding.found))
        };
        assert_eq!(found(&[("a:1", 7.0)]), None, "it has nobody to follow");
        for (clocks, level, words) in [
            (&[("a:1", 7.0), ("b:1", 7.125)][..], Level::Ok, "within 127ms"),
            (
                &[("a:1", 0.0), ("b:1", -0.3), ("c:1", 0.1)],
                Level::Warning,
                "the clock of c:1 is 400ms ahead of that of b:1",
            ),
            (&[("a:1", 9.0), ("b:1", 8.0)], Level::Danger, "that of b:1"),
        ] {
            let (found, text) = found(clocks).unwrap();
            assert!(found == level && text.contains(words), "{text}");
        }
    }
}
