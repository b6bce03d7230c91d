//! A cluster compared with a single server: the cost of choosing one of several nodes, and of a
//! message at one node about a release at another.

use leasehold_testkit::{Cluster, RedisServer};

use crate::alone::{Score, middle, one_turn};
use crate::contended::contend;
use crate::contender::Kind;
use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::server;
use crate::table::Table;

/// How many tasks send requests at the same time over one connection to each node.
const TASKS: [usize; 2] = [1, 64];

/// How many waiters one name has.
const WAITERS: [usize; 2] = [2, 16];

/// How often the places take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 5;

/// A deployment of locks, and all servers that work for it.
struct Place<'a> {
    name: &'static str,
    url: String,
    servers: Vec<&'a RedisServer>,
}

impl<'a> Place<'a> {
    fn cluster(name: &'static str, cluster: &'a Cluster) -> Self {
        let servers = (0..cluster.size()).map(|node| cluster.node(node)).collect();
        Self { name, url: cluster.url(), servers }
    }
}

/// Prints two tables.
pub(crate) async fn run() -> Outcome {
    let single = server::start()?;
    let (three, six) = (Cluster::start(0)?, Cluster::start(1)?);
    let places = [
        Place { name: "single server", url: single.url(), servers: vec![&single] },
        Place::cluster("cluster of 3", &three),
        Place::cluster("cluster of 3 + 3 replicas", &six),
    ];
    println!("{}", pairs(&places).await?);
    println!("{}", hand_overs(&places).await?);
    Ok(())
}

async fn pairs(places: &[Place<'_>]) -> Outcome<Table> {
    let heads = ["", "tasks", "pairs/s", "median", "p99", "CPU µs/pair, all servers"];
    let mut table = Table::new("Cluster: acquire + release on separate names", &heads);
    let mut contenders = Vec::new();
    for place in places {
        contenders.push(Kind::Leasehold.connect(&place.url).await?);
    }
    for tasks in TASKS {
        let mut scores: Vec<Score> = places.iter().map(|_| Score::default()).collect();
        // One turn each to warm up, not counted.
        for turn in 0..=ROUNDS {
            for ((place, contender), score) in places.iter().zip(&contenders).zip(&mut scores) {
                let measured = one_turn(&place.servers, contender, tasks).await?;
                if turn > 0 {
                    score.add(measured);
                }
            }
        }
        for (place, mut score) in places.iter().zip(scores) {
            let times = Times::new(std::mem::take(&mut score.times));
            table.row([
                place.name.to_owned(),
                tasks.to_string(),
                number(middle(score.rates)),
                span(times.median()),
                span(times.quantile(0.99)),
                number(middle(score.cpu)),
            ]);
        }
    }
    Ok(table)
}

async fn hand_overs(places: &[Place<'_>]) -> Outcome<Table> {
    let heads =
        ["", "waiters", "hand-overs/s", "median wait", "p99", "CPU µs/hand-over, all servers"];
    let mut table = Table::new("Cluster: one name, empty critical section", &heads);
    for waiters in WAITERS {
        for place in places {
            let row = contend(&place.servers, &place.url, Kind::Leasehold, waiters).await?;
            let count = row.waits.count() as f64;
            table.row([
                place.name.to_owned(),
                waiters.to_string(),
                number(count / row.took.as_secs_f64()),
                span(row.waits.median()),
                span(row.waits.quantile(0.99)),
                number(row.done.cpu.as_secs_f64() * 1e6 / count),
            ]);
        }
    }
    Ok(table)
}
