//! Acquire and release where nobody waits: leasehold, the raw scripts and rslock, in one runtime,
//! in turns, each task on a separate name.

use std::time::{Duration, Instant};

use leasehold_testkit::Table;
use tokio::task::JoinSet;

use crate::contender::{Contender, Kind};
use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::process;
use crate::server::{self, Work};

/// How many tasks send requests at the same time over one connection.
const TASKS: [usize; 3] = [1, 64, 1024];

/// How often the contenders take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 7;

/// How long one turn of one contender takes.
const TURN: Duration = Duration::from_millis(700);

/// The results of the turns of one contender.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub(crate) times: Vec<Duration>,
    /// Pairs per second, turn by turn.
    pub(crate) rates: Vec<f64>,
    /// Microseconds inside the server's commands, per pair, turn by turn.
    inside: Vec<f64>,
    /// Microseconds of the server's processor, per pair, turn by turn.
    pub(crate) cpu: Vec<f64>,
    /// The same for this process.
    own_cpu: Vec<f64>,
}

/// Prints one table per number of tasks.
pub(crate) async fn run() -> Outcome {
    let server = server::start()?;
    let mut contenders = Vec::new();
    for kind in Kind::ALL {
        contenders.push((kind, kind.connect(&server.url()).await?));
    }
    for tasks in TASKS {
        let mut scores: Vec<Score> = Kind::ALL.iter().map(|_| Score::default()).collect();
        // One turn each to warm up, not counted.
        for turn in 0..=ROUNDS {
            for ((_, contender), score) in contenders.iter().zip(&mut scores) {
                let tasks = (0..tasks).map(|task| (contender.clone(), format!("alone/{task}")));
                let measured = one_turn(tasks, TURN, || {
                    let work = Work::of(&server)?;
                    Ok([work.inside, work.cpu, process::cpu(std::process::id())?])
                });
                let measured = measured.await?;
                if turn > 0 {
                    score.add(measured);
                }
            }
        }
        print(tasks, scores);
    }
    Ok(())
}

/// A task that takes a lock and releases it.
pub(crate) trait Task: Send + 'static {
    fn pair(&self) -> impl Future<Output = Outcome> + Send;
}

impl Task for (Contender, String) {
    async fn pair(&self) -> Outcome {
        self.0.pair(&self.1, || ()).await
    }
}

/// What was spent so far: the time inside the server's commands, the server's processor time, and
/// that of this process.
pub(crate) type Spent = [Duration; 3];

/// Lets the tasks of one contender have their turn, and asks for their cost.
pub(crate) async fn one_turn(
    tasks: impl Iterator<Item = impl Task>,
    turn: Duration,
    spent: impl Fn() -> Outcome<Spent>,
) -> Outcome<Score> {
    let (before, begin) = (spent()?, Instant::now());
    let mut running = JoinSet::new();
    for task in tasks {
        running.spawn(async move {
            let mut times = Vec::new();
            while begin.elapsed() < turn {
                let asked = Instant::now();
                task.pair().await?;
                times.push(asked.elapsed());
            }
            Outcome::Ok(times)
        });
    }
    let mut score = Score::default();
    while let Some(times) = running.join_next().await {
        score.times.extend(times??);
    }
    let (took, after, pairs) = (begin.elapsed(), spent()?, score.times.len() as f64);
    score.rates.push(pairs / took.as_secs_f64());
    let each = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() * 1e6 / pairs;
    score.inside.push(each(0));
    score.cpu.push(each(1));
    score.own_cpu.push(each(2));
    Ok(score)
}

impl Score {
    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.rates.extend(other.rates);
        self.inside.extend(other.inside);
        self.cpu.extend(other.cpu);
        self.own_cpu.extend(other.own_cpu);
    }
}

fn print(tasks: usize, scores: Vec<Score>) {
    let title = format!("Alone: acquire + release, {tasks} tasks on separate names");
    let heads = " | pairs/s | median | p99 | median ÷ raw | µs in commands/pair | \
        server CPU µs/pair | client CPU µs/pair";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new(&title, &heads);
    let scores: Vec<(Kind, Times, Score)> = Kind::ALL
        .into_iter()
        .zip(scores)
        .map(|(kind, mut score)| (kind, Times::new(std::mem::take(&mut score.times)), score))
        .collect();
    let raw = scores.iter().find(|(kind, ..)| *kind == Kind::Raw);
    let raw = raw.map_or(Duration::ZERO, |(_, times, _)| times.median());
    for (kind, times, score) in scores {
        table.row([
            kind.name().to_owned(),
            number(middle(score.rates)),
            span(times.median()),
            span(times.quantile(0.99)),
            format!("{:.2}", times.median().as_secs_f64() / raw.as_secs_f64()),
            number(middle(score.inside)),
            number(middle(score.cpu)),
            number(middle(score.own_cpu)),
        ]);
    }
    println!("{table}");
}

/// The median of some values.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
