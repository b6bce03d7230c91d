//! Checks whether the clocks of servers that take over from each other differ by more than is
//! allowed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use leasehold_core::text::show_duration;
use leasehold_core::{StoreError, StoreErrorKind};
use redis::FromRedisValue;
use tokio::time::timeout;

use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::options::{Address, RedisOptions};

/// The smallest difference between clocks that is reported: 1 s, far above what NTP leaves.
pub(crate) const CLOCK_OFFSET: Duration = Duration::from_secs(1);

/// The clock of a server, compared with this machine's clock.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    pub(crate) server: String,
    pub(crate) offset: Offset,
}

/// Reads the clocks of servers, all at the same time. Servers that do not answer within the timeout
/// of a request are left out.
pub(crate) async fn read(settings: &RedisOptions, servers: &[Address]) -> Vec<ServerClock> {
    let Ok(dialer) = Dialer::new(settings) else { return Vec::new() };
    let limit = settings.timeout();
    let each = servers.iter().map(|address| async {
        let reading = async {
            let connection = dialer.dial(address, None).await.ok()?;
            let offset = Offset::of(&connection, limit).await.ok()??;
            Some(ServerClock { server: connection.server().to_owned(), offset })
        };
        timeout(limit, reading).await.ok()?
    });
    join_all(each).await.into_iter().flatten().collect()
}

/// The finding about clocks of servers that may take over from each other, if they are too far
/// apart. It names the two servers with the largest difference.
pub(crate) fn trouble(clocks: &[ServerClock], allowed: Duration) -> Option<Finding> {
    let (behind, ahead) = extremes(clocks)?;
    let apart = apart(behind, ahead);
    let far = show_duration(Duration::from_secs_f64(apart.ahead));
    let found = format!("the server's clock is {far} ahead of that of {}", behind.server);
    let (topic, limit) = (Topic(&ahead.server, "clock"), show_duration(allowed));
    let remedy = "run NTP on both; until then write quarantine=on in every store URL";
    if apart.exceeds(allowed) {
        let found = format!("{found}, and {limit} is allowed");
        let risk = "when it takes over, leases end early by as much, and two may hold one lock";
        Some(topic.danger(found, risk, remedy))
    } else if apart.exceeds(allowed / 2) {
        let found = format!("{found}, more than half of what is allowed ({limit})");
        let risk = "if they drift further apart, leases end early when it takes over";
        Some(topic.warning(found, risk, remedy))
    } else {
        None
    }
}

/// Like [`trouble`], but also returns a finding if all is well; `None` with fewer than two clocks.
pub(crate) fn finding(clocks: &[ServerClock], allowed: Duration) -> Option<Finding> {
    let (behind, ahead) = extremes(clocks).filter(|_| clocks.len() > 1)?;
    let fine = || {
        let far = show_duration(apart(behind, ahead).bound());
        let (count, limit) = (clocks.len(), show_duration(allowed));
        let found = format!(
            "the clocks of {count} servers that take over from each other are within {far}, and \
             {limit} is allowed"
        );
        Topic(&behind.server, "clock").ok(found)
    };
    Some(trouble(clocks, allowed).unwrap_or_else(fine))
}

fn extremes(clocks: &[ServerClock]) -> Option<(&ServerClock, &ServerClock)> {
    let by_time =
        |one: &&ServerClock, other: &&ServerClock| one.offset.ahead.total_cmp(&other.offset.ahead);
    Some((clocks.iter().min_by(by_time)?, clocks.iter().max_by(by_time)?))
}

fn apart(behind: &ServerClock, ahead: &ServerClock) -> Offset {
    ahead.offset.from(behind.offset)
}

/// The difference between a server's clock and this machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    /// How many seconds the server's clock is ahead, or behind if negative.
    pub(crate) ahead: f64,
    /// The possible error in seconds: half of the round trip.
    pub(crate) error: f64,
}

/// A reading of a server's clock, with the times before and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) asked: Instant,
    /// The time since 1970 by the server's clock.
    pub(crate) there: Duration,
    /// The time since 1970 by this machine's clock, before the request.
    before: Duration,
    /// The time since 1970 by this machine's clock, after the answer.
    after: Duration,
}

impl ClockReading {
    /// Reads the server's clock; `None` if the user may not.
    pub(crate) async fn ask(
        connection: &Connection,
        limit: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let (asked, before) = (Instant::now(), since_1970());
        let value = match connection.ask_within(limit, &redis::cmd("TIME")).await {
            Ok(value) => value,
            Err(error) if error.kind() == StoreErrorKind::Denied => return Ok(None),
            Err(error) => return Err(error),
        };
        let after = since_1970();
        let Ok((seconds, micros)) = <(u64, u64)>::from_redis_value(value) else { return Ok(None) };
        let there = Duration::from_secs(seconds) + Duration::from_micros(micros);
        Ok(Some(Self { asked, there, before, after }))
    }

    /// The difference from this machine's clock.
    pub(crate) fn offset(self) -> Offset {
        let error = self.after.saturating_sub(self.before).as_secs_f64() / 2.0;
        let here = self.before.as_secs_f64() + error;
        Offset { ahead: self.there.as_secs_f64() - here, error }
    }
}

impl Offset {
    /// Measures the difference; `None` if the user may not ask for the time.
    pub(crate) async fn of(
        connection: &Connection,
        limit: Duration,
    ) -> Result<Option<Self>, StoreError> {
        Ok(ClockReading::ask(connection, limit).await?.map(ClockReading::offset))
    }

    /// The difference from the clock of another server.
    pub(crate) fn from(self, other: Self) -> Self {
        Self { ahead: self.ahead - other.ahead, error: self.error + other.error }
    }

    /// Whether the difference is certainly more than `limit`.
    pub(crate) fn exceeds(self, limit: Duration) -> bool {
        self.ahead.abs() - self.error > limit.as_secs_f64()
    }

    /// The largest possible difference, to the millisecond: smaller parts change from one reading
    /// to the next.
    pub(crate) fn bound(self) -> Duration {
        let ms = ((self.ahead.abs() + self.error) * 1000.0).ceil();
        Duration::from_millis(ms as u64)
    }

    /// The finding about a large difference. Leases do not depend on the difference. But it can
    /// disturb the order of tokens after a loss of data, and the times that an operator compares.
    pub(crate) fn finding(self, server: &str) -> Option<Finding> {
        self.exceeds(CLOCK_OFFSET).then(|| {
            let far = show_duration(Duration::from_secs_f64(self.ahead.abs()));
            let direction = if self.ahead > 0.0 { "ahead of" } else { "behind" };
            Topic(server, "clock").warning(
                format!("the server's clock is {far} {direction} this machine's"),
                "times do not compare, and tokens after lost data may not grow",
                "run NTP on both",
            )
        })
    }
}

/// The time of this machine since 1970.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn clocks_further_apart_than_offset_are_a_danger_and_from_half_of_it_a_warning() {
        let clock = |(server, ahead): (&str, f64)| ServerClock {
            server: server.to_owned(),
            offset: Offset { ahead, error: 0.001 },
        };
        let found = |clocks: &[(&str, f64)]| {
            let clocks: Vec<_> = clocks.iter().copied().map(clock).collect();
            let finding = finding(&clocks, Duration::from_millis(500))?;
            Some((finding.level, finding.to_string()))
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("a:1", 7.0)]), None, "it has nobody to follow");
        let (level, words) = found(&[("a:1", 7.0), ("b:1", 7.125)]).unwrap();
        assert!(level == Level::Ok && words.contains("within 127ms"), "{words}");
        let (level, words) = found(&[("a:1", 0.0), ("b:1", -0.3), ("c:1", 0.1)]).unwrap();
        assert!(
            level == Level::Warning && words.starts_with("c:1: the server's clock is 400ms"),
            "{words}"
        );
        let (level, words) = found(&[("a:1", 9.0), ("b:1", 8.0)]).unwrap();
        assert!(level == Level::Danger && words.contains("that of b:1"), "{words}");
    }
}
