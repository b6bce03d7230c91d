//! A service of sentinels compared with one server, with and without a replica: the cost of the way
//! to the primary, and the wait when another server becomes the primary.

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::{Data, SentinelFleet};

use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::pairs::pairs;
use crate::server;
use crate::table::Table;

/// How many tasks send requests at the same time over one connection.
const TASKS: [usize; 2] = [1, 64];

/// How often the contenders take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 7;

/// How long one turn of one contender takes.
const TURN: Duration = Duration::from_millis(500);

/// How often each kind of failover is tried.
const FAILOVERS: usize = 3;

/// Longer than a failover. If that forgets a release, the next holder waits until this lease ends.
const LEASE: Duration = Duration::from_secs(10);

/// Prints two tables.
pub(crate) async fn run() -> Outcome {
    let mut fleet = SentinelFleet::start()?;
    println!("{}", alone(&fleet).await?);
    println!("{}", waiting(&mut fleet).await?);
    Ok(())
}

async fn alone(fleet: &SentinelFleet) -> Outcome<Table> {
    let server = server::start()?;
    let contenders = [
        ("one server", Client::connect(server.url()).await?),
        ("one server with a replica", Client::connect(fleet.servers()[0].url()).await?),
        ("the same by its sentinels", Client::connect(fleet.url()).await?),
    ];
    let title = "Sentinel: acquire + release on separate names";
    let mut table = Table::new(title, &["", "tasks", "pairs/s", "median", "p99"]);
    for tasks in TASKS {
        let mut times = [const { Vec::new() }; 3];
        // One turn each to warm up, not counted.
        for turn in 0..=ROUNDS {
            for ((_, client), times) in contenders.iter().zip(&mut times) {
                let lock = |task| client.mutex(format!("sentinel/{task}"));
                let measured = pairs((0..tasks).map(lock), TURN).await?;
                if turn > 0 {
                    times.extend(measured);
                }
            }
        }
        for ((name, _), times) in contenders.iter().zip(times) {
            let times = Times::new(times);
            table.row([
                (*name).to_owned(),
                tasks.to_string(),
                number(times.count() as f64 / (TURN.as_secs_f64() * ROUNDS as f64)),
                span(times.median()),
                span(times.quantile(0.99)),
            ]);
        }
    }
    Ok(table)
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
