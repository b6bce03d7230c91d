//! What is checked when a store is opened: every primary, and what weakens a promise there.

use std::time::Duration;

use leasehold_core::StoreError;
use tokio::time::sleep;

use super::connection::error;
use super::doctor::clocks::{ClockReading, ServerClock};
use super::doctor::connect_check;
use super::options::{Address, Settings};
use super::topology::Topology;

/// The pauses before a server is checked again that has closed the connection: 50 to 400 ms, and
/// each time the server is dialled no sooner than any other that failed. One that closes every
/// connection at once, as a TLS port may, is reported in less than two seconds.
const CLOSED_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// What was found at all primaries.
pub(super) struct Opened {
    /// What weakens a promise.
    pub(super) warnings: Vec<String>,
    pub(super) clocks: Vec<ServerClock>,
    pub(super) followers: Vec<Address>,
    /// What the clock showed by which all leases end.
    pub(super) reading: Option<ClockReading>,
}

/// Checks the primaries, and again if a server closes a connection meanwhile: an operator
/// closes all there are, or a proxy is restarted.
///
/// # Errors
///
/// When one cannot be used, or none can be reached. Nothing was executed.
pub(super) async fn check_servers(
    topology: &Topology,
    settings: &Settings,
) -> Result<Opened, StoreError> {
    for pause in CLOSED_PAUSES {
        match check_once(topology, settings).await {
            Err(error) if error::is_closed(&error) => sleep(pause).await,
            outcome => return outcome.map_err(StoreError::not_executed),
        }
    }
    check_once(topology, settings).await.map_err(StoreError::not_executed)
}

async fn check_once(topology: &Topology, settings: &Settings) -> Result<Opened, StoreError> {
    let primaries = topology.primaries().await?.into_iter();
    let (found, missing): (Vec<_>, Vec<_>) = primaries.partition(Result::is_ok);
    // The nodes of a cluster that answer serve their slots, even while others do not.
    let checked = if found.is_empty() { missing } else { found };
    let (mut warnings, mut reading) = (Vec::new(), None);
    let (mut clocks, mut followers) = (Vec::new(), Vec::new());
    for server in checked {
        let server = server?;
        let check = connect_check::check(&server, settings).await?;
        clocks.extend(check.clock);
        followers.extend(check.followers);
        warnings.extend(check.findings.iter().map(ToString::to_string));
        let slots = topology.slots_of(server.address());
        warnings.extend(server.check_durability(&slots).await?);
        reading = check.reading.filter(|_| topology.has_one_clock());
    }
    Ok(Opened { warnings, clocks, followers, reading })
}
