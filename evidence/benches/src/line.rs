//! Callers of one client that stand in line: inside one process, from several processes, and a lone
//! caller that drops its guards and asks again.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::Client;
use leasehold_testkit::{RedisServer, Table};
use tokio::task::JoinSet;

use crate::contender::Kind;
use crate::measure::{Times, jain, number, span};
use crate::outcome::Outcome;
use crate::server;

/// The hidden task of one of several processes. Its arguments: a URL, a slice in µs, and when it
/// begins, in milliseconds since 1970.
pub(crate) const PEER: &str = "line-peer";

const NAME: &str = "line";

/// A number of tasks in each of several processes.
const PROCESSES: usize = 4;
const TASKS: usize = 16;

/// How long one row is measured.
const TURN: Duration = Duration::from_secs(5);

/// The span over which the shares of processes are compared.
const WINDOW: Duration = Duration::from_millis(100);

/// The slice of a client, and the slice of a client whose callers all ask the store.
const SLICES: [Duration; 2] = [Duration::from_millis(5), Duration::ZERO];

/// Nothing expires and nothing is renewed during a measurement.
const TTL: Duration = Duration::from_secs(30);

/// Prints three tables.
pub(crate) async fn run() -> Outcome {
    let server = server::start()?;
    inside(&server).await?;
    between(&server)?;
    alone(&server).await
}

async fn connect(url: &str, slice: Duration) -> Outcome<Client> {
    Ok(Client::builder().url(url).slice(slice).build().await?)
}

// ---- inside one process

async fn inside(server: &RedisServer) -> Outcome {
    let heads = "tasks | slice | entries/s | median wait | longest | longest ÷ median | \
         machine's longest stall | Jain";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new("In line: one process, empty critical section", &heads);
    for tasks in [16, 128] {
        for slice in SLICES {
            let stall = longest_stall().await?;
            let client = connect(&server.url(), slice).await?;
            let over = Arc::new(AtomicBool::new(false));
            let mut running = JoinSet::new();
            let begin = Instant::now();
            for _ in 0..tasks {
                let (lock, over) = (client.mutex(NAME).ttl(TTL), Arc::clone(&over));
                running.spawn(async move {
                    let (mut waits, mut last) = (Vec::new(), None);
                    while !over.load(Ordering::Relaxed) {
                        let asked = Instant::now();
                        let guard = lock.acquire().await?;
                        waits.push(asked.elapsed());
                        assert!(last.replace(guard.token()) < Some(guard.token()));
                        drop(guard);
                    }
                    Outcome::Ok(waits)
                });
            }
            tokio::time::sleep(TURN).await;
            over.store(true, Ordering::Relaxed);
            let took = begin.elapsed();
            let (mut waits, mut turns) = (Vec::new(), Vec::new());
            while let Some(one) = running.join_next().await {
                let one = one??;
                turns.push(one.len());
                waits.extend(one);
            }
            let waits = Times::new(waits);
            let (median, longest) = (waits.median(), waits.longest());
            table.row([
                tasks.to_string(),
                span(slice),
                number(waits.count() as f64 / took.as_secs_f64()),
                span(median),
                span(longest),
                number(longest.as_secs_f64() / median.as_secs_f64()),
                span(stall),
                format!("{:.4}", jain(&turns)),
            ]);
        }
    }
    println!("{table}");
    Ok(())
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

// ---- from several processes

fn between(server: &RedisServer) -> Outcome {
    let title = format!("In line: {PROCESSES} processes × {TASKS} tasks, empty critical section");
    let jain_head = format!("Jain of processes over {}, median", span(WINDOW));
    let mut table = Table::new(&title, &["slice", "entries/s", &jain_head, "10th of a hundred"]);
    for slice in SLICES {
        let begin = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(1);
        let [slice_us, begin_ms] = [slice.as_micros(), begin.as_millis()].map(|n| n.to_string());
        let spawn = |_| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([PEER, &server.url(), &slice_us, &begin_ms]).stdout(Stdio::piped());
            Outcome::Ok(command.spawn()?)
        };
        let peers: Vec<_> = (0..PROCESSES).map(spawn).collect::<Outcome<_>>()?;
        let mut counts: Vec<Vec<usize>> = Vec::new();
        for peer in peers {
            let output = peer.wait_with_output()?;
            let text = String::from_utf8(output.stdout)?;
            counts.push(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?);
        }
        let windows = counts.iter().map(Vec::len).min().unwrap_or_default();
        let shares = |window: usize| counts.iter().map(|one| one[window]).collect::<Vec<_>>();
        let mut fair: Vec<f64> = (0..windows).map(|window| jain(&shares(window))).collect();
        fair.sort_by(f64::total_cmp);
        let entries: usize = counts.iter().flatten().sum();
        table.row([
            span(slice),
            number(entries as f64 / TURN.as_secs_f64()),
            format!("{:.4}", fair[windows / 2]),
            format!("{:.4}", fair[windows / 10]),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// One of several processes: prints how often its tasks entered in each window.
pub(crate) async fn peer(url: &str, slice_us: &str, begin_ms: &str) -> Outcome {
    let client = connect(url, Duration::from_micros(slice_us.parse()?)).await?;
    client.mutex("warm").acquire().await?.release().await?;
    let begin = UNIX_EPOCH + Duration::from_millis(begin_ms.parse()?);
    tokio::time::sleep(begin.duration_since(SystemTime::now()).unwrap_or_default()).await;
    let (entries, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut running = JoinSet::new();
    for _ in 0..TASKS {
        let lock = client.mutex(NAME).ttl(TTL);
        let (entries, over) = (Arc::clone(&entries), Arc::clone(&over));
        running.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let guard = lock.acquire().await?;
                entries.fetch_add(1, Ordering::Relaxed);
                guard.release().await?;
            }
            Outcome::Ok(())
        });
    }
    let started = Instant::now();
    let mut window = 0;
    while started.elapsed() < TURN {
        window += 1;
        tokio::time::sleep_until((started + WINDOW * window).into()).await;
        print!("{} ", entries.swap(0, Ordering::Relaxed));
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

// ---- alone

async fn alone(server: &RedisServer) -> Outcome {
    let raw = Kind::Raw.connect(&server.url()).await?;
    let client = connect(&server.url(), SLICES[0]).await?;
    let lock = client.mutex("alone").ttl(TTL);
    let (mut raw_pairs, mut dropped) = (Vec::new(), Vec::new());
    // In turns, so that a slow moment of the machine hits both.
    for _ in 0..10 {
        let begin = Instant::now();
        while begin.elapsed() < TURN / 20 {
            let asked = Instant::now();
            raw.pair("alone/raw", || ()).await?;
            raw_pairs.push(asked.elapsed());
        }
        let begin = Instant::now();
        while begin.elapsed() < TURN / 20 {
            let asked = Instant::now();
            drop(lock.acquire().await?);
            dropped.push(asked.elapsed());
        }
    }
    let mut table = Table::new(
        "Alone: one task takes a lock, drops the guard, and takes it again",
        &["", "median", "p99", "median ÷ raw"],
    );
    let (raw, dropped) = (Times::new(raw_pairs), Times::new(dropped));
    let of_raw = |times: &Times| times.median().as_secs_f64() / raw.median().as_secs_f64();
    for (who, times) in [("raw scripts", &raw), ("leasehold, dropped", &dropped)] {
        let (median, p99) = (span(times.median()), span(times.quantile(0.99)));
        table.row([who.to_owned(), median, p99, format!("{:.3}", of_raw(times))]);
    }
    println!("{table}");
    Ok(())
}
