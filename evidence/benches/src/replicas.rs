//! The cost if more than one server must have a grant before it counts: acquire and release by
//! clients of one primary with two replicas, in turns, each task on a separate name.

use std::time::{Duration, Instant};

use leasehold::{Client, Lock};
use leasehold_testkit::{RedisServer, Replicated};
use tokio::task::JoinSet;

use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::table::Table;

/// The compared options, and their names in the table.
const POLICIES: [(&str, &str); 4] = [
    ("replicas=none", ""),
    ("replicas=1", "replicas=1"),
    ("replicas=all", "replicas=all"),
    ("quarantine=on", "quarantine=on"),
];

/// How many tasks run at the same time. They share connections, and one WAIT for all grants.
const TASKS: usize = 64;

/// How often the policies take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 5;

/// How long one turn of one policy takes.
const TURN: Duration = Duration::from_millis(500);

/// The leases are long enough for a turn, and shorter than a quarantine.
const TTL: Duration = Duration::from_secs(30);

/// Prints a table.
pub(crate) async fn run() -> Outcome {
    // Each server has a file, synced once a second, so that one option can wait for disks.
    let options = RedisServer::options().append_only("everysec");
    let servers = Replicated::start_with(options, &[100; 2])?;
    let mut clients = Vec::new();
    for (name, options) in POLICIES {
        // A time limit so long that every policy really waits.
        let url = format!("{}?timeout=10s&{options}", servers[0].url());
        match Client::connect(&url).await {
            Ok(client) => {
                client.admin().end_quarantine().await?;
                clients.push((name, client));
            }
            Err(refused) => println!("{name} is left out: {refused}\n"),
        }
    }
    compare(&clients).await
}

async fn compare(clients: &[(&str, Client)]) -> Outcome {
    let mut times: Vec<Vec<Duration>> = clients.iter().map(|_| Vec::new()).collect();
    // One turn each to warm up, not counted.
    for turn in 0..=ROUNDS {
        for ((_, client), times) in clients.iter().zip(&mut times) {
            let lock = |task| client.mutex(format!("replicas/{task}")).ttl(TTL);
            let measured = pairs((0..TASKS).map(lock)).await?;
            if turn > 0 {
                times.extend(measured);
            }
        }
    }
    let title = format!("Replicas: acquire + release with two replicas, {TASKS} tasks");
    let mut table = Table::new(&title, &["", "pairs/s", "median", "p99", "median ÷ none"]);
    let times: Vec<Times> = times.into_iter().map(Times::new).collect();
    let none = times.first().map_or(Duration::ZERO, Times::median);
    for ((name, _), times) in clients.iter().zip(times) {
        let seconds = TURN.as_secs_f64() * ROUNDS as f64;
        table.row([
            (*name).to_owned(),
            number(times.count() as f64 / seconds),
            span(times.median()),
            span(times.quantile(0.99)),
            number(times.median().as_secs_f64() / none.as_secs_f64()),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// One task per lock takes and releases it for a turn. Returns how long each pair took.
async fn pairs(locks: impl Iterator<Item = Lock>) -> Outcome<Vec<Duration>> {
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for lock in locks {
        running.spawn(async move {
            let mut times = Vec::new();
            while begin.elapsed() < TURN {
                let asked = Instant::now();
                lock.acquire().await?.release().await?;
                times.push(asked.elapsed());
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(of_task) = running.join_next().await {
        times.extend(of_task??);
    }
    Ok(times)
}
