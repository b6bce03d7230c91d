//! Several names in one call, compared with as many single acquisitions, one after the other.

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::Table;

use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::server;

/// How many names: one, a small order, and the most that are allowed.
const NAMES: [usize; 3] = [1, 8, 64];

/// How often each is taken and released, in turns.
const ROUNDS: usize = 500;

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let server = server::start()?;
    let client = Client::connect(server.url()).await?;
    let heads = ["", "median", "p99", "names/s", "median ÷ one by one"];
    let mut table = Table::new("Together: acquire + release of n free names", &heads);
    for count in NAMES {
        let names: Vec<String> = (0..count).map(|n| format!("together/{n}")).collect();
        let (mut together, mut singly) = (Vec::new(), Vec::new());
        // A tenth more to warm up, not counted.
        for round in 0..ROUNDS + ROUNDS / 10 {
            let times = (all(&client, &names).await?, one_by_one(&client, &names).await?);
            if round >= ROUNDS / 10 {
                together.push(times.0);
                singly.push(times.1);
            }
        }
        let (together, singly) = (Times::new(together), Times::new(singly));
        for (what, times) in [("one by one", &singly), ("at once", &together)] {
            let median = times.median().as_secs_f64();
            table.row([
                format!("{count} {what}"),
                span(times.median()),
                span(times.quantile(0.99)),
                number(count as f64 / median),
                format!("{:.2}", median / singly.median().as_secs_f64()),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

async fn all(client: &Client, names: &[String]) -> Outcome<Duration> {
    let begin = Instant::now();
    client.multi(names).acquire().await?.release().await?;
    Ok(begin.elapsed())
}

async fn one_by_one(client: &Client, names: &[String]) -> Outcome<Duration> {
    let (begin, mut guards) = (Instant::now(), Vec::new());
    for name in names {
        guards.push(client.mutex(name).acquire().await?);
    }
    for guard in guards {
        guard.release().await?;
    }
    Ok(begin.elapsed())
}
