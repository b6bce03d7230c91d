//! One look at the server on connecting: will it do, and what weakens a promise?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::{StoreError, StoreErrorKind};
use redis::FromRedisValue;

use super::clocks::ServerClock;
use super::connection::Link;
use super::info::Info;
use super::url::{Address, Place, Settings};
use crate::store::{Finding, Level};

/// Clocks further apart than this are mentioned: 1 s, far above what NTP leaves.
pub(super) const CLOCK_OFFSET: Duration = Duration::from_secs(1);

/// What was seen of a server.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// What weakens a promise; nothing if all is well.
    pub(super) findings: Vec<Finding>,
    /// Its clock, and those who follow it, if the user may ask.
    pub(super) clock: Option<ServerClock>,
    pub(super) followers: Vec<Address>,
}

/// Looks at a server.
///
/// # Errors
///
/// When the server will not do: too old, a replica, a sentinel, a node of a cluster where none is
/// expected; or when it does not answer within the time for connecting.
pub(super) async fn look(link: &Link, settings: &Settings) -> Result<Look, StoreError> {
    let (server, limit) = (link.server(), settings.connect_timeout);
    let Some(info) = Info::ask(link, limit).await? else {
        return Ok(Look { findings: vec![no_info(server)], ..Look::default() });
    };
    if let Some(unfit) = info.unfit(matches!(settings.place, Place::Cluster(_))) {
        let why = format!("{server}: {}: {}", unfit.is, unfit.remedy);
        return Err(StoreError::new(unfit.kind, why));
    }
    let persistence = info.persistence(server, settings.quarantine.is_some());
    let offset = Offset::of(link, limit).await?;
    let clock = offset.and_then(|offset| offset.finding(server));
    let mut findings: Vec<_> =
        info.eviction(server).into_iter().chain(persistence).chain(clock).collect();
    findings.retain(|finding| finding.level != Level::Ok);
    Ok(Look {
        findings,
        clock: offset.map(|offset| ServerClock { server: server.to_owned(), offset }),
        followers: info.followers().into_iter().map(|follower| follower.address).collect(),
    })
}

pub(super) fn no_info(server: &str) -> Finding {
    Finding::warning(
        server,
        "rights",
        "this user may not run INFO",
        "it is not known whether the server deletes locks or forgets them",
        "grant +info",
    )
}

/// How far a server's clock is from this machine's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset {
    /// Seconds that it is ahead, or behind if negative.
    pub(super) ahead: f64,
    /// By how much that may be wrong: half of the round trip.
    pub(super) error: f64,
}

impl Offset {
    /// Measures it; `None` if the user may not ask for the time.
    pub(super) async fn of(link: &Link, limit: Duration) -> Result<Option<Self>, StoreError> {
        let before = since_1970();
        let value = match link.ask_within(limit, &redis::cmd("TIME")).await {
            Ok(value) => value,
            Err(error) if error.kind() == StoreErrorKind::Denied => return Ok(None),
            Err(error) => return Err(error),
        };
        let after = since_1970();
        let Ok((seconds, micros)) = <(u64, u64)>::from_redis_value(value) else { return Ok(None) };
        let there = Duration::from_secs(seconds) + Duration::from_micros(micros);
        let error = after.saturating_sub(before).as_secs_f64() / 2.0;
        let here = before.as_secs_f64() + error;
        Ok(Some(Self { ahead: there.as_secs_f64() - here, error }))
    }

    /// Whether it is certainly more than this.
    pub(super) fn exceeds(self, limit: Duration) -> bool {
        self.ahead.abs() - self.error > limit.as_secs_f64()
    }

    /// Says that it is far. Leases do not depend on it; the order of tokens across lost data does,
    /// and so does every time that an operator compares.
    pub(super) fn finding(self, server: &str) -> Option<Finding> {
        self.exceeds(CLOCK_OFFSET).then(|| {
            let far = Duration::from_secs_f64(self.ahead.abs());
            let direction = if self.ahead > 0.0 { "ahead of" } else { "behind" };
            Finding::warning(
                server,
                "clock",
                format!("its clock is {far:.1?} {direction} this machine's"),
                "times do not compare, and tokens after lost data may not grow",
                "run NTP on both",
            )
        })
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
