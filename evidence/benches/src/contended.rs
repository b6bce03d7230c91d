//! One name that all clients want: each waiter is a separate client with its own connections, and
//! leaves the critical section immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_testkit::{RedisServer, Table};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::contender::{Contender, Kind};
use crate::measure::{Times, jain, number, span};
use crate::outcome::Outcome;
use crate::server::{self, Done, Work};

/// The kind of the waiters, and their number.
const ROWS: [(Kind, usize); 6] = [
    (Kind::Leasehold, 2),
    (Kind::Leasehold, 16),
    (Kind::Leasehold, 128),
    (Kind::Leasehold, 1024),
    (Kind::Rslock, 2),
    (Kind::Rslock, 16),
];

/// How long one row is measured.
const TURN: Duration = Duration::from_secs(6);

/// The longest wait in a row that ends; rslock has no order, so a waiter may wait longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let server = server::start()?;
    let round_trip = round_trip(&server).await?;
    let title = format!(
        "Contended: one name, empty critical section (a round trip takes {})",
        span(round_trip)
    );
    let heads = " | waiters | hand-overs/s | × round trip | median wait | p99 | longest | \
         longest ÷ median | Jain | server µs";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new(&title, &heads);
    for (kind, waiters) in ROWS {
        let row = contend(&server, kind, waiters).await?;
        let rate = row.waits.count() as f64 / row.took.as_secs_f64();
        let (median, longest) = (row.waits.median(), row.waits.longest());
        table.row([
            kind.name().to_owned(),
            waiters.to_string(),
            number(rate),
            format!("{:.2}", rate * round_trip.as_secs_f64()),
            span(median),
            span(row.waits.quantile(0.99)),
            span(longest),
            number(longest.as_secs_f64() / median.as_secs_f64()),
            format!("{:.4}", jain(&row.turns)),
            number(row.done.cpu.as_secs_f64() * 1e6 / row.waits.count() as f64),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// The results for a number of waiters.
struct Row {
    waits: Times,
    turns: Vec<usize>,
    took: Duration,
    /// The work of the server meanwhile.
    done: Done,
}

/// Lets a number of clients wait for one name, and asks the server for the cost.
async fn contend(server: &RedisServer, kind: Kind, waiters: usize) -> Outcome<Row> {
    let name: Arc<str> = format!("contended/{}/{waiters}", kind.name()).into();
    let (ready, over) = (Arc::new(Barrier::new(waiters + 1)), Arc::new(AtomicBool::new(false)));
    let mut running = JoinSet::new();
    for _ in 0..waiters {
        let contender = kind.connect(&server.url()).await?;
        let (name, ready, over) = (Arc::clone(&name), Arc::clone(&ready), Arc::clone(&over));
        running.spawn(async move {
            // Connections and inboxes are opened before the clock starts.
            contender.pair(&name, || ()).await?;
            ready.wait().await;
            let waiting = wait_in_turns(&contender, &name, &over);
            Outcome::Ok(tokio::time::timeout(TURN + PATIENCE, waiting).await.unwrap_or_default())
        });
    }
    ready.wait().await;
    let (before, begin) = (Work::of(server)?, Instant::now());
    tokio::time::sleep(TURN).await;
    let (done, took) = (Work::of(server)?.since(before), begin.elapsed());
    over.store(true, Ordering::Relaxed);
    let (mut waits, mut turns) = (Vec::new(), Vec::new());
    while let Some(one) = running.join_next().await {
        // Turns that ended after the clock was stopped are not counted.
        let one: Vec<Duration> =
            one??.into_iter().filter(|(at, _)| *at < begin + took).map(|(_, wait)| wait).collect();
        turns.push(one.len());
        waits.extend(one);
    }
    Ok(Row { waits: Times::new(waits), turns, took, done })
}

/// Takes its turn again and again. Returns when it entered each time, and how long it waited.
async fn wait_in_turns(
    contender: &Contender,
    name: &str,
    over: &AtomicBool,
) -> Vec<(Instant, Duration)> {
    let mut turns = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let mut entered = asked;
        if contender.pair(name, || entered = Instant::now()).await.is_err() {
            break;
        }
        turns.push((entered, entered - asked));
    }
    turns
}

/// The median time of a PING over a connection of the same driver, alone.
async fn round_trip(server: &RedisServer) -> Outcome<Duration> {
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut times = Vec::new();
    for _ in 0..5_000 {
        let asked = Instant::now();
        let _: String = redis::cmd("PING").query_async(&mut connection).await?;
        times.push(asked.elapsed());
    }
    Ok(Times::new(times).median())
}
