//! What is looked at when a store is opened: every primary, and what weakens a promise there.

use std::time::Duration;

use leasehold_core::StoreError;
use tokio::time::sleep;

use super::connection::error;
use super::doctor::clocks::{ClockReading, ServerClock};
use super::doctor::connect_check;
use super::options::{Address, Settings};
use super::topology::Topology;

/// The pauses before a server is looked at again that has closed the connection: 50 to 400 ms, and
/// each time it is dialled no sooner than any other that failed. Who closes every connection at
/// once, as a TLS port may, is told of in less than two seconds.
const CLOSED_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// What was seen of all primaries.
pub(super) struct Seen {
    /// What weakens a promise.
    pub(super) words: Vec<String>,
    pub(super) clocks: Vec<ServerClock>,
    pub(super) followers: Vec<Address>,
    /// What the clock showed by which all leases end.
    pub(super) reading: Option<ClockReading>,
}

/// Looks at the primaries, and again if the server closes a connection meanwhile: an operator
/// closes all there are, or a proxy is restarted.
///
/// # Errors
///
/// When one will not do, or none can be reached. Nothing was executed.
pub(super) async fn look(topology: &Topology, settings: &Settings) -> Result<Seen, StoreError> {
    for pause in CLOSED_PAUSES {
        match look_once(topology, settings).await {
            Err(error) if error::is_closed(&error) => sleep(pause).await,
            outcome => return outcome.map_err(StoreError::not_executed),
        }
    }
    look_once(topology, settings).await.map_err(StoreError::not_executed)
}

async fn look_once(topology: &Topology, settings: &Settings) -> Result<Seen, StoreError> {
    let primaries = topology.primaries().await?.into_iter();
    let (found, missing): (Vec<_>, Vec<_>) = primaries.partition(Result::is_ok);
    // Those of a cluster that answer serve their slots, even while others do not.
    let looked_at = if found.is_empty() { missing } else { found };
    let (mut words, mut reading) = (Vec::new(), None);
    let (mut clocks, mut followers) = (Vec::new(), Vec::new());
    for server in looked_at {
        let server = server?;
        let seen = connect_check::look(&server, settings).await?;
        clocks.extend(seen.clock);
        followers.extend(seen.followers);
        words.extend(seen.findings.iter().map(ToString::to_string));
        words.extend(server.check_durability().await?);
        reading = seen.reading.filter(|_| topology.has_one_clock());
    }
    Ok(Seen { words, clocks, followers, reading })
}
