//! One name that all want: each waiter is a separate client with its own connections, or all are
//! tasks of one client. They leave the critical section immediately.

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

/// The kind of the waiters, their clients, and the tasks of each.
const ROWS: [(Kind, usize, usize); 8] = [
    (Kind::Leasehold, 2, 1),
    (Kind::Leasehold, 16, 1),
    (Kind::Leasehold, 128, 1),
    (Kind::Leasehold, 1024, 1),
    (Kind::Rslock, 2, 1),
    (Kind::Rslock, 16, 1),
    (Kind::Dropped, 1, 16),
    (Kind::Dropped, 1, 128),
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
    let heads = " | clients | tasks | hand-overs/s | × round trip | median wait | p99 | longest | \
         longest ÷ median | machine's longest stall | Jain | server µs";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new(&title, &heads);
    for (kind, clients, tasks) in ROWS {
        let stall = longest_stall().await?;
        let row = contend(&server, kind, clients, tasks).await?;
        let rate = row.waits.count() as f64 / row.took.as_secs_f64();
        let (median, longest) = (row.waits.median(), row.waits.longest());
        table.row([
            kind.name().to_owned(),
            clients.to_string(),
            tasks.to_string(),
            number(rate),
            format!("{:.2}", rate * round_trip.as_secs_f64()),
            span(median),
            span(row.waits.quantile(0.99)),
            span(longest),
            number(longest.as_secs_f64() / median.as_secs_f64()),
            span(stall),
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

/// Lets the tasks of a number of clients wait for one name, and asks the server for the cost.
async fn contend(server: &RedisServer, kind: Kind, clients: usize, tasks: usize) -> Outcome<Row> {
    let name: Arc<str> = format!("contended/{}/{clients}/{tasks}", kind.name()).into();
    let ready = Arc::new(Barrier::new(clients * tasks + 1));
    let (over, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let mut contenders = Vec::new();
    for _ in 0..clients {
        contenders.extend(vec![kind.connect(&server.url()).await?; tasks]);
    }
    for contender in contenders {
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

/// The longest that a thread stood still during a turn, of one thread for each processor that only
/// reads the clock.
async fn longest_stall() -> Outcome<Duration> {
    let mut reading = JoinSet::new();
    for _ in 0..std::thread::available_parallelism()?.get() {
        reading.spawn_blocking(|| {
            let begin = Instant::now();
            let (mut last, mut longest) = (begin, Duration::ZERO);
            while last - begin < TURN {
                let now = Instant::now();
                longest = longest.max(now - last);
                last = now;
            }
            longest
        });
    }
    Ok(reading.join_all().await.into_iter().max().unwrap_or_default())
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
