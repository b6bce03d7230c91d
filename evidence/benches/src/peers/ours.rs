//! The peers in Rust, as a program like those of the other languages.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::contender::Kind;
use crate::outcome::Outcome;
use crate::peers::histogram::Histogram;
use crate::peers::report::Report;
use crate::process;

/// The hidden task that runs as such a program.
pub(crate) const PEER: &str = "peer";

/// The arguments are those of every program of a peer.
pub(crate) async fn run(arguments: &[&str]) -> Outcome {
    let [lock, port, mode, tasks, seconds, prefix] = arguments else {
        return Err("usage: peer LOCK PORT MODE TASKS SECONDS PREFIX".into());
    };
    let (tasks, turn) = (tasks.parse()?, Duration::from_secs(seconds.parse()?));
    let kind = match *lock {
        "leasehold" => Kind::Leasehold,
        "leasehold-dropped" => Kind::Dropped,
        "raw" => Kind::Raw,
        "rslock" => Kind::Rslock,
        _ => return Err(format!("no lock {lock:?}").into()),
    };
    let lock = kind.connect(&format!("redis://127.0.0.1:{port}")).await?;
    lock.pair(&format!("{prefix}-warm-{}", std::process::id()), || ()).await?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let lock = lock.clone();
        let name = match *mode {
            "hot" => (*prefix).to_owned(),
            _ => format!("{prefix}-{task}"),
        };
        running.spawn(async move {
            let (mut entries, mut waits, mut longest) = (0, Histogram::default(), Duration::ZERO);
            while begin.elapsed() < turn {
                let (asked, mut waited) = (Instant::now(), Duration::ZERO);
                lock.pair(&name, || waited = asked.elapsed()).await?;
                waits.add(waited);
                longest = longest.max(waited);
                entries += 1;
            }
            Outcome::Ok((task, entries, waits, longest))
        });
    }
    let mut entries = vec![0; tasks];
    let (mut waits, mut longest) = (Histogram::default(), Duration::ZERO);
    while let Some(ended) = running.join_next().await {
        let (task, of_task, its_waits, its_longest): (usize, _, _, _) = ended??;
        entries[task] = of_task;
        waits.merge(&its_waits);
        longest = longest.max(its_longest);
    }
    let rss_kib = process::peak_memory_kib()?;
    let report = Report { entries, waits, longest_us: longest.as_secs_f64() * 1e6, rss_kib };
    serde_json::to_writer(std::io::stdout(), &report)?;
    std::io::stdout().write_all(b"\n")?;
    Ok(())
}
