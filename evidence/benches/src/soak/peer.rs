//! A process of a soak: tasks that come, take locks in every way, and go. Sometimes a new client
//! replaces the old one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Client, Error};
use leasehold_core::backoff::Jitter;
use leasehold_testkit::worker::{listen, say};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::outcome::Outcome;

/// Tasks at a time.
const TASKS: usize = 32;

/// The most turns of a task before it goes.
const TURNS: u64 = 200;

/// After this many tasks the client is closed, and a new one connects.
const TASKS_OF_A_CLIENT: u64 = 500;

const TTL: Duration = Duration::from_secs(5);

/// Works until its stdin ends; prints its work so far on request.
pub(super) async fn run(url: &str, names: u64, seed: u64) -> Outcome {
    let acquired = Arc::<AtomicU64>::default();
    let (counted, handle) = (Arc::clone(&acquired), Handle::current());
    // The thread lives as long as the process, which ends with its parent.
    std::thread::spawn(move || {
        loop {
            listen();
            let tasks = handle.metrics().num_alive_tasks();
            say(&format!("{} {tasks}", counted.load(Ordering::Relaxed)));
        }
    });
    let (mut random, mut tasks) = (Jitter::new(seed), JoinSet::new());
    let (mut client, mut started) = (connect(url).await?, 0);
    loop {
        while tasks.len() < TASKS {
            started += 1;
            if u64::is_multiple_of(started, TASKS_OF_A_CLIENT) {
                let old = std::mem::replace(&mut client, connect(url).await?);
                // A task that still uses the client gets an error, and goes.
                drop(old.close().await);
            }
            let jitter = Jitter::new(random.next_u64());
            tasks.spawn(turns(client.clone(), names, jitter, Arc::clone(&acquired)));
        }
        tasks.join_next().await;
    }
}

async fn connect(url: &str) -> Outcome<Client> {
    loop {
        match Client::connect(url).await {
            Ok(client) => return Ok(client),
            Err(error) if error.is_transient() => sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn turns(client: Client, names: u64, mut random: Jitter, acquired: Arc<AtomicU64>) {
    for _ in 0..random.next_u64() % TURNS {
        // A tenth of all turns use a few names, for which other tasks wait as well.
        let names = if random.next_u64().is_multiple_of(10) { 8 } else { names };
        let lock = client.mutex(format!("soak/{}", random.next_u64() % names)).ttl(TTL);
        let patience = random.between(Duration::ZERO, Duration::from_millis(50));
        let taken = match random.next_u64() % 10 {
            0 => timeout(patience, lock.acquire()).await.ok(),
            1 => Some(lock.acquire_within(patience).await),
            _ => Some(lock.acquire().await),
        };
        match taken {
            Some(Ok(guard)) => {
                acquired.fetch_add(1, Ordering::Relaxed);
                match random.next_u64() % 10 {
                    0 => drop(guard),
                    1 => sleep(patience / 10).await,
                    _ => drop(guard.release().await),
                }
            }
            Some(Err(Error::Closed)) => return,
            Some(Err(_)) | None => {}
        }
    }
}
