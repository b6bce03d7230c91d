//! A service of sentinels: how long a waiter waits when another server becomes the primary.

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::{Data, SentinelFleet};

use crate::measure::{Times, span};
use crate::outcome::Outcome;
use crate::table::Table;

/// How often each kind of failover is tried.
const FAILOVERS: usize = 3;

/// Longer than a failover. If that forgets a release, the next holder waits until this lease ends.
const LEASE: Duration = Duration::from_secs(10);

/// Prints a table.
pub(crate) async fn run() -> Outcome {
    let mut fleet = SentinelFleet::start()?;
    println!("{}", waiting(&mut fleet).await?);
    Ok(())
}

/// How another server becomes the primary.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// `FAILOVER`: the primary hands over to a replica that has all data.
    HandOver,
    /// The primary is dead.
    Killed,
    /// `SENTINEL FAILOVER`: a replica takes over.
    Requested,
    /// The primary hangs.
    Stopped,
}

impl Change {
    const ALL: [Self; 4] = [Self::HandOver, Self::Killed, Self::Requested, Self::Stopped];

    fn name(self) -> &'static str {
        match self {
            Self::HandOver => "handed over (FAILOVER)",
            Self::Killed => "killed",
            Self::Requested => "SENTINEL FAILOVER",
            Self::Stopped => "stopped",
        }
    }

    fn begin(self, fleet: &mut SentinelFleet, from: usize) -> Outcome {
        match self {
            Self::HandOver => fleet.servers().hand_over(1 - from)?,
            Self::Killed => fleet.servers_mut()[from].kill9()?,
            Self::Requested => drop(fleet.fail_over()?),
            Self::Stopped => fleet.servers()[from].stop()?,
        }
        Ok(())
    }

    fn mend(self, fleet: &mut SentinelFleet, from: usize) -> Outcome {
        match self {
            Self::HandOver | Self::Requested => {}
            Self::Killed => fleet.servers_mut()[from].restart(Data::Kept)?,
            Self::Stopped => fleet.servers()[from].cont()?,
        }
        fleet.servers().wait_in_sync()?;
        fleet.wait_acquainted()?;
        Ok(())
    }
}

/// A holder releases while there is no primary, and a waiter waits.
async fn waiting(fleet: &mut SentinelFleet) -> Outcome<Table> {
    let title = "Sentinel: from the loss of the primary (down after 500 ms) to the next holder";
    let heads = ["", "sentinels agree", "waiter holds", "waiter holds, longest"];
    let mut table = Table::new(title, &heads);
    for change in Change::ALL {
        let (mut agreed, mut held) = (Vec::new(), Vec::new());
        for _ in 0..FAILOVERS {
            let times = hand_on(fleet, change).await?;
            agreed.push(times.0);
            held.push(times.1);
        }
        let (agreed, held) = (Times::new(agreed), Times::new(held));
        let cells = [agreed.median(), held.median(), held.longest()].map(span);
        table.row([change.name().to_owned()].into_iter().chain(cells));
    }
    Ok(table)
}

async fn hand_on(fleet: &mut SentinelFleet, change: Change) -> Outcome<(Duration, Duration)> {
    let from = fleet.primary().ok_or("there is no primary")?;
    let (client, other) =
        (Client::connect(fleet.url()).await?, Client::connect(fleet.url()).await?);
    let guard = client.mutex("handed on").ttl(LEASE).acquire().await?;
    let waiting = tokio::spawn(async move {
        let guard = other.mutex("handed on").ttl(LEASE).acquire().await?;
        let at = Instant::now();
        guard.release().await?;
        Outcome::Ok(at)
    });
    let name = guard.name().clone();
    while client.admin().inspect(&name).await?.waiting == 0 {
        tokio::task::yield_now().await;
    }
    fleet.servers().wait_in_sync()?;
    let begin = Instant::now();
    tokio::task::block_in_place(|| change.begin(fleet, from))?;
    // A missing answer does not matter: the keeper repeats the release until it succeeds.
    let releasing = tokio::spawn(async move { drop(guard.release().await) });
    tokio::task::block_in_place(|| fleet.wait_for_another_primary(from))?;
    let agreed = begin.elapsed();
    let held = waiting.await?? - begin;
    releasing.await?;
    tokio::task::block_in_place(|| change.mend(fleet, from))?;
    Ok((agreed, held))
}
