//! Jobs that run once, on the memory store with a clock that the test moves.
#![cfg(test)]

use std::time::Duration;

use leasehold::time::FakeClock;
use leasehold::{Client, Error, LossReason, Result};

const LEAST: Duration = Duration::from_secs(30);
const MOST: Duration = Duration::from_secs(3600);

async fn client(clock: &FakeClock) -> Client {
    Client::builder().clock(clock.clone()).url("memory:").build().await.unwrap()
}

#[tokio::test]
async fn a_job_is_skipped_while_another_machine_has_it() {
    let client = client(&FakeClock::new()).await;
    let job = client.job("report");
    let done = job
        .run(async |_| {
            assert_eq!(job.run(async |_| Ok::<_, Error>(2)).await?, None);
            Ok::<_, Error>(1)
        })
        .await;
    assert_eq!(done.unwrap(), Some(1));
    assert_eq!(job.run(async |_| Ok::<_, Error>(3)).await.unwrap(), Some(3));
}

#[tokio::test]
async fn a_job_that_ends_at_once_is_skipped_until_at_least_is_over() {
    let clock = FakeClock::new();
    let client = client(&clock).await;
    let job = client.job("report").min_hold(LEAST);
    assert_eq!(job.run(async |_| Ok::<_, Error>(1)).await.unwrap(), Some(1));
    assert_eq!(job.run(async |_| Ok::<_, Error>(2)).await.unwrap(), None);
    clock.advance(LEAST - Duration::from_secs(1));
    assert_eq!(job.run(async |_| Ok::<_, Error>(3)).await.unwrap(), None);
    clock.advance(Duration::from_secs(1));
    assert_eq!(job.run(async |_| Ok::<_, Error>(4)).await.unwrap(), Some(4));
}

#[tokio::test]
async fn a_job_that_failed_keeps_its_name_taken_too() {
    let client = client(&FakeClock::new()).await;
    let job = client.job("report").min_hold(LEAST);
    let failed: Result<Option<()>> = job.run(async |_| Err(Error::Closed)).await;
    assert!(matches!(failed, Err(Error::Closed)));
    assert!(job.try_start().await.unwrap().is_none());
}

#[tokio::test]
async fn a_job_that_hangs_is_dropped_at_the_end_of_at_most_and_the_next_may_start() {
    let client = Client::memory();
    let limit = Duration::from_millis(100);
    let job = client.job("report").max_hold(limit);
    let error = job
        .run(async |_| {
            std::future::pending::<()>().await;
            Ok::<_, Error>(())
        })
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LossReason::HeldTooLong, .. }), "{error}");
    let mutex = client.mutex("report");
    mutex.acquire_within(Duration::from_secs(10)).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn min_hold_must_not_be_longer_than_max_hold() {
    let client = client(&FakeClock::new()).await;
    let job = client.job("report").min_hold(MOST).max_hold(LEAST);
    assert!(matches!(job.try_start().await, Err(Error::Invalid(_))));
}

#[test]
fn the_blocking_job_is_the_same() {
    let client = leasehold::blocking::Client::memory();
    let job = client.job("report").min_hold(LEAST).max_hold(MOST);
    assert_eq!(job.run(|_| Ok::<_, Error>(1)).unwrap(), Some(1));
    assert_eq!(job.run(|_| Ok::<_, Error>(2)).unwrap(), None);
}
