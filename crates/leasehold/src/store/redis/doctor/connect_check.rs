//! The checks when a store is opened: whether every primary can be used, and which settings weaken
//! a promise.

use std::time::Duration;

use futures_util::future::join;
use leasehold_core::StoreError;
use tokio::time::sleep;

use crate::store::finding::{Finding, Level, Topic};
use crate::store::redis::connection::{Connection, error};
use crate::store::redis::doctor::clocks::{ClockReading, ServerClock};
use crate::store::redis::options::{Address, RedisOptions, Servers};
use crate::store::redis::topology::Topology;

/// The pauses before a server that has closed the connection is checked again: 50 to 400 ms. The
/// usual pause before a failed server is dialled again applies as well. A server that closes every
/// connection immediately, as a TLS port may, is reported in less than two seconds.
const CLOSED_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// The results of the checks of all servers.
#[derive(Debug, Default)]
pub(crate) struct ConnectCheck {
    /// Warnings about settings that weaken a promise; empty if all is well.
    pub(crate) warnings: Vec<String>,
    /// The clock of the server that was checked last, if the user may ask for the time.
    pub(crate) reading: Option<ClockReading>,
    /// The clocks of the servers. `followers` are the servers' replicas.
    pub(crate) clocks: Vec<ServerClock>,
    pub(crate) followers: Vec<Address>,
}

impl ConnectCheck {
    /// Checks a server.
    ///
    /// # Errors
    ///
    /// If the server cannot be used: too old, a replica, a sentinel, an unexpected node of a
    /// cluster. Also if it does not answer within the time for connecting.
    pub(crate) async fn add(
        &mut self,
        connection: &Connection,
        settings: &RedisOptions,
    ) -> Result<(), StoreError> {
        let (server, limit) = (connection.server(), settings.connect_timeout());
        // TIME and INFO are sent together: a process that starts for one short job waits for them.
        // TIME comes first, because a command before it would make the reading less exact.
        let (reading, info) =
            join(ClockReading::ask(connection, limit), connection.info(limit)).await;
        let Some(info) = info? else {
            self.warnings.push(no_info(server).to_string());
            return Ok(());
        };
        let in_cluster = matches!(settings.servers, Servers::Cluster(_));
        if let Some(incompatible) = info.incompatibility(in_cluster) {
            let why = format!("{server}: {}: {}", incompatible.is, incompatible.remedy);
            return Err(StoreError::new(incompatible.kind, why).with_source(incompatible));
        }
        self.reading = reading?;
        let offset = self.reading.map(ClockReading::offset);
        let clock = offset.and_then(|offset| offset.finding(server));
        let findings = [info.eviction(server), info.persistence(server, settings), clock];
        let found = findings.into_iter().flatten().filter(|finding| finding.level != Level::Ok);
        self.warnings.extend(found.map(|finding| finding.to_string()));
        let clock = offset.map(|offset| ServerClock { server: server.to_owned(), offset });
        self.clocks.extend(clock);
        self.followers.extend(info.followers().into_iter().map(|follower| follower.address));
        Ok(())
    }
}

/// Checks the primaries. Repeats the check if a server closes a connection meanwhile, as when an
/// operator closes all connections, or a proxy is restarted.
///
/// # Errors
///
/// If a primary cannot be used, or none can be reached. Nothing was executed.
pub(crate) async fn check_servers(
    topology: &Topology,
    settings: &RedisOptions,
) -> Result<ConnectCheck, StoreError> {
    for pause in CLOSED_PAUSES {
        match check_once(topology, settings).await {
            Err(error) if error::is_closed(&error) => sleep(pause).await,
            outcome => return outcome.map_err(StoreError::not_executed),
        }
    }
    check_once(topology, settings).await.map_err(StoreError::not_executed)
}

async fn check_once(
    topology: &Topology,
    settings: &RedisOptions,
) -> Result<ConnectCheck, StoreError> {
    let primaries = topology.primaries().await?.into_iter();
    let (there, missing): (Vec<_>, Vec<_>) = primaries.partition(Result::is_ok);
    // In a cluster, the nodes that answer serve their slots, even while other nodes do not.
    let checked = if there.is_empty() { missing } else { there };
    let mut found = ConnectCheck::default();
    for server in checked {
        let server = server?;
        found.add(&server, settings).await?;
        let slots = topology.slots_of(server.address());
        found.warnings.extend(server.check_durability(&slots).await?);
    }
    found.reading = found.reading.filter(|_| topology.has_one_clock());
    Ok(found)
}

pub(crate) fn no_info(server: &str) -> Finding {
    Topic(server, "rights").warning(
        "this user may not run INFO",
        "it is not known whether the server deletes or forgets locks",
        "grant +info",
    )
}
