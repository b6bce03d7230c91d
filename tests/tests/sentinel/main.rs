//! The Redis store where sentinels say who is the primary.
#![cfg(test)]

mod clocks;
mod conformance;
mod contention;
mod crowd;
mod failover;
mod loss;
mod passwords;
mod sentinels;

use std::time::{Duration, Instant};

use leasehold::{Client, LockName};
use leasehold_testkit::must;
use tokio::time::{sleep, timeout};

/// How long something that must happen may take before the test gives it up: generous.
const PATIENCE: Duration = Duration::from_secs(60);

/// A lease that outlives every failover in these tests.
const LONG: Duration = Duration::from_secs(300);

/// A lease that ends while a test watches.
const SHORT: Duration = Duration::from_secs(2);

async fn connect(url: impl AsRef<str>) -> Client {
    must(Client::connect(url).await)
}

/// What a future gives that must end.
async fn within<T>(future: impl Future<Output = T>) -> T {
    must(timeout(PATIENCE, future).await)
}

/// Tries again and again until it works.
async fn eventually<T, E: std::fmt::Debug>(verb: impl AsyncFn() -> Result<T, E>) -> T {
    let since = Instant::now();
    loop {
        match verb().await {
            Ok(value) => return value,
            Err(error) => assert!(since.elapsed() < PATIENCE, "it never works: {error:?}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until so many wait for a name.
async fn queued(client: &Client, name: &str, many: u32) {
    let name = must(LockName::new(name));
    let since = Instant::now();
    while eventually(async || client.admin().inspect(&name).await).await.waiting < many {
        assert!(since.elapsed() < PATIENCE, "they never join the queue");
        sleep(Duration::from_millis(5)).await;
    }
}

#[test]
#[ignore = "a job of the tests, for a process of its own"]
fn job() {
    passwords::job();
}
