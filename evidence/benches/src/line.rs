//! Callers that stand in line in several processes, with and without slices of their clients.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::Client;
use leasehold_testkit::Table;
use tokio::task::JoinSet;

use crate::measure::{jain, number, span};
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

/// Prints a table.
pub(crate) fn run() -> Outcome {
    let server = server::start()?;
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
    let slice = Duration::from_micros(slice_us.parse()?);
    let client = Client::builder().url(url).slice(slice).build().await?;
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
