//! Acquire and release, over and over, by one client.

use std::time::{Duration, Instant};

use leasehold::Lock;
use tokio::task::JoinSet;

use crate::outcome::Outcome;

/// One task per lock takes and releases it until the turn is over. Returns how long each pair took.
pub(crate) async fn pairs(
    locks: impl IntoIterator<Item = Lock>,
    turn: Duration,
) -> Outcome<Vec<Duration>> {
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for lock in locks {
        running.spawn(async move {
            let mut times = Vec::new();
            while begin.elapsed() < turn {
                let asked = Instant::now();
                lock.acquire().await?.release().await?;
                times.push(asked.elapsed());
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(of_task) = running.join_next().await {
        times.extend(of_task??);
    }
    Ok(times)
}
