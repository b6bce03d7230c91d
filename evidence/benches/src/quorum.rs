//! A quorum of five nodes: how much longer an acquire takes than the slowest node of the fastest
//! majority, with near, far and slow nodes.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold::Client;
use leasehold_testkit::{Proxy, RedisServer, Table, quorum_url};
use redis::aio::MultiplexedConnection;
use rslock::LockManager;

use crate::measure::{Times, number, span};
use crate::outcome::Outcome;

const NODES: usize = 5;

/// What the network adds to a round trip to each node.
const ROUND_TRIPS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(20)];

/// What the network adds to a round trip to the slow node: more than a node may take.
const SLOW: Duration = Duration::from_millis(80);

/// How often each contender is measured, in turns.
const ROUNDS: usize = 200;

/// Long enough that nothing is renewed meanwhile, and shorter than a quarantine.
const TTL: Duration = Duration::from_secs(30);

/// Prints a table.
pub(crate) async fn run() -> Outcome {
    let servers = (0..NODES).map(|_| RedisServer::start()).collect::<Result<Vec<_>, _>>()?;
    let ports: Vec<u16> = servers.iter().map(RedisServer::port).collect();
    latencies(&ports).await
}

async fn latencies(ports: &[u16]) -> Outcome {
    let heads = ["round trip", "third node", "leasehold", "p99", "÷ third", "rslock", "p99"];
    let title = "Quorum: acquire on five nodes, beside the third to answer of five at once";
    let mut table = Table::new(title, &heads);
    for round_trip in ROUND_TRIPS {
        for is_one_slow in [false, true] {
            let proxies =
                ports.iter().map(|port| Proxy::start(*port)).collect::<Result<Vec<_>, _>>()?;
            proxies.iter().for_each(|proxy| proxy.delay(round_trip / 2));
            if is_one_slow {
                proxies[NODES - 1].delay(SLOW / 2);
            }
            let ports: Vec<u16> = proxies.iter().map(Proxy::port).collect();
            let [third, ours, theirs] = Contenders::connect(&ports).await?.compare().await?;
            let slow = if is_one_slow { ", one slow" } else { "" };
            table.row([
                format!("{round_trip:?}{slow}"),
                span(third.median()),
                span(ours.median()),
                span(ours.quantile(0.99)),
                number(ours.median().as_secs_f64() / third.median().as_secs_f64()),
                span(theirs.median()),
                span(theirs.quantile(0.99)),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// Clients of the same nodes, over the same networks.
struct Contenders {
    nodes: Vec<MultiplexedConnection>,
    client: Client,
    manager: LockManager,
}

impl Contenders {
    async fn connect(ports: &[u16]) -> Outcome<Self> {
        let clients = ports
            .iter()
            .map(|port| redis::Client::open(format!("redis://127.0.0.1:{port}/")))
            .collect::<Result<Vec<_>, _>>()?;
        let mut nodes = Vec::new();
        for client in &clients {
            nodes.push(client.get_multiplexed_async_connection().await?);
        }
        let client = Client::connect(quorum_url(ports.iter().copied(), "quarantine=off")).await?;
        Ok(Self { nodes, client, manager: LockManager::from_clients(clients) })
    }

    /// Acquires in turns. Releases are not counted.
    async fn compare(&self) -> Outcome<[Times; 3]> {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..=ROUNDS {
            let third = self.third_answer().await?;
            let begin = Instant::now();
            let guard = self.client.mutex("quorum/ours").ttl(TTL).acquire().await?;
            let ours = begin.elapsed();
            guard.release().await?;
            let begin = Instant::now();
            let lock = self.manager.acquire_no_guard("quorum/theirs", TTL).await?;
            let theirs = begin.elapsed();
            self.manager.unlock(&lock).await;
            // The first one warms up.
            if round > 0 {
                times.iter_mut().zip([third, ours, theirs]).for_each(|(all, time)| all.push(time));
            }
        }
        Ok(times.map(Times::new))
    }

    /// How long the slowest node of the fastest majority takes for a SET.
    async fn third_answer(&self) -> Outcome<Duration> {
        let begin = Instant::now();
        let asked = self.nodes.iter().cloned().map(|mut node| async move {
            let mut set = redis::cmd("SET");
            set.arg("quorum/raw").arg("value").arg("PX").arg(TTL.as_millis() as u64);
            set.exec_async(&mut node).await
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        for _ in 0..=NODES / 2 {
            if let Some(answer) = asked.next().await {
                answer?;
            }
        }
        Ok(begin.elapsed())
    }
}
