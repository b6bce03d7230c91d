//! Acquire and release in a PostgreSQL database where nobody waits: leasehold beside what teams put
//! together from the same database, in turns, each task on another name.

mod contender;
mod far;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold_testkit::Postgres;
use tokio::task::JoinSet;

use self::contender::{Contender, Kind};
use self::far::Far;
use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::process;
use crate::table::Table;

/// How often the contenders take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 7;

/// How long one turn of one contender takes.
const TURN: Duration = Duration::from_millis(500);

/// How long a message is under way, in the rows with a network: 2 ms, as between two zones of a
/// cloud.
const UNDER_WAY: Duration = Duration::from_millis(2);

/// Tasks that ask at once.
const MANY: usize = 8;

/// What the turns of one contender gave.
#[derive(Default)]
struct Score {
    times: Vec<Duration>,
    rates: Vec<f64>,
    /// Microseconds of the server's processor, per pair, turn by turn.
    cpu: Vec<f64>,
}

/// Prints one table for each kind of server and number of tasks.
pub(crate) async fn run() -> Outcome {
    let missing = "PostgreSQL is not installed: `cargo xtask test` does that";
    let quick = Postgres::start_with(&["fsync=off"])?.ok_or(missing)?;
    let near = socket(&quick);
    compare("not flushed, one task", &quick, &near, 1).await?;
    compare(&format!("not flushed, {MANY} tasks"), &quick, &near, MANY).await?;
    let far = Far::start(near, UNDER_WAY)?;
    compare(&format!("{UNDER_WAY:?} each way, one task"), &quick, &far.socket(), 1).await?;
    drop((far, quick));
    let safe = Postgres::start_with(&[])?.ok_or(missing)?;
    let near = socket(&safe);
    compare("flushed, one task", &safe, &near, 1).await?;
    compare(&format!("flushed, {MANY} tasks"), &safe, &near, MANY).await
}

/// The directory of a server's socket.
fn socket(server: &Postgres) -> PathBuf {
    let [(_, host), ..] = server.environment();
    PathBuf::from(host)
}

/// Lets all contenders have their turns, and prints what they came to.
async fn compare(title: &str, server: &Postgres, socket: &Path, tasks: usize) -> Outcome {
    let mut contenders = Vec::new();
    for kind in Kind::ALL {
        contenders.push((kind, kind.connect(socket, tasks).await?, Score::default()));
    }
    // One turn each to warm up, not counted.
    for turn in 0..=ROUNDS {
        for (_, contender, score) in &mut contenders {
            let measured = one_turn(server, contender, tasks).await?;
            if turn > 0 {
                score.times.extend(measured.times);
                score.rates.extend(measured.rates);
                score.cpu.extend(measured.cpu);
            }
        }
    }
    let heads = ["", "pairs/s", "median", "p99", "median ÷ advisory", "server CPU µs/pair"];
    let mut table = Table::new(&format!("PostgreSQL: acquire + release, {title}"), &heads);
    let mut least = None;
    for (kind, _, score) in contenders {
        let times = Times::new(score.times);
        let least = *least.get_or_insert(times.median());
        table.row([
            kind.name().to_owned(),
            number(middle(score.rates)),
            span(times.median()),
            span(times.quantile(0.99)),
            number(times.median().as_secs_f64() / least.as_secs_f64()),
            number(middle(score.cpu)),
        ]);
    }
    println!("{table}");
    Ok(())
}

async fn one_turn(server: &Postgres, contender: &Contender, tasks: usize) -> Outcome<Score> {
    let (before, begin) = (cpu(server)?, Instant::now());
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let contender = contender.clone();
        running.spawn(async move {
            let mut times = Vec::new();
            while begin.elapsed() < TURN {
                let asked = Instant::now();
                contender.pair(task).await?;
                times.push(asked.elapsed());
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(of_task) = running.join_next().await {
        times.extend(of_task??);
    }
    let (took, pairs) = (begin.elapsed(), times.len() as f64);
    let used = cpu(server)?.saturating_sub(before);
    let cpu = vec![used.as_secs_f64() * 1e6 / pairs];
    Ok(Score { rates: vec![pairs / took.as_secs_f64()], times, cpu })
}

/// Processor time of a server and of all that it has started.
fn cpu(server: &Postgres) -> Outcome<Duration> {
    let parent = server.process();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    let children: Vec<u32> =
        children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    // One that has ended in between has used next to nothing.
    let of_children = children.into_iter().filter_map(|child| process::cpu(child).ok());
    Ok(process::cpu(parent)? + of_children.sum::<Duration>())
}

/// The one in the middle.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
