//! Checks of a server on connecting: whether it can be used, and what weakens a promise.

use futures_util::future::join;
use leasehold_core::StoreError;

use crate::store::redis::connection::Connection;
use crate::store::redis::doctor::clocks::{ClockReading, ServerClock};
use crate::store::redis::options::{Address, Servers, Settings};
use crate::store::{Finding, Level};

/// What was found at a server.
#[derive(Debug, Default)]
pub(crate) struct ConnectCheck {
    /// What weakens a promise; nothing if all is well.
    pub(crate) findings: Vec<Finding>,
    /// What its clock showed, if the user may ask.
    pub(crate) reading: Option<ClockReading>,
    /// How far that clock is from this machine's, and those who follow it.
    pub(crate) clock: Option<ServerClock>,
    pub(crate) followers: Vec<Address>,
}

/// Checks a server.
///
/// # Errors
///
/// When the server cannot be used: too old, a replica, a sentinel, a node of a cluster where none
/// is expected; or when it does not answer within the time for connecting.
pub(crate) async fn check(
    connection: &Connection,
    settings: &Settings,
) -> Result<ConnectCheck, StoreError> {
    let (server, limit) = (connection.server(), settings.connect_timeout);
    // One round trip for both: a process that starts for one short job waits for it. The time is
    // asked for first, because what comes before it would make it less exact.
    let (reading, info) = join(ClockReading::ask(connection, limit), connection.info(limit)).await;
    let Some(info) = info? else {
        return Ok(ConnectCheck { findings: vec![no_info(server)], ..ConnectCheck::default() });
    };
    if let Some(incompatible) =
        info.incompatibility(matches!(settings.servers, Servers::Cluster(_)))
    {
        let why = format!("{server}: {}: {}", incompatible.is, incompatible.remedy);
        return Err(StoreError::new(incompatible.kind, why).with_source(incompatible));
    }
    let persistence = info.persistence(server, settings);
    let reading = reading?;
    let offset = reading.map(ClockReading::offset);
    let clock = offset.and_then(|offset| offset.finding(server));
    let mut findings: Vec<_> =
        info.eviction(server).into_iter().chain(persistence).chain(clock).collect();
    findings.retain(|finding| finding.level != Level::Ok);
    Ok(ConnectCheck {
        findings,
        reading,
        clock: offset.map(|offset| ServerClock { server: server.to_owned(), offset }),
        followers: info.followers().into_iter().map(|follower| follower.address).collect(),
    })
}

pub(crate) fn no_info(server: &str) -> Finding {
    Finding::warning(
        server,
        "rights",
        "this user may not run INFO",
        "it is not known whether the server deletes or forgets locks",
        "grant +info",
    )
}
