//! Jobs that run once, on the memory store with a clock that the test moves.

use std::time::Duration;

use leasehold::time::FakeClock;
use leasehold::{Client, Error, LeaseOptions, LossReason, Result};

const LEAST: Duration = Duration::from_secs(30);
const MOST: Duration = Duration::from_secs(3600);

async fn client(clock: &FakeClock) -> Client {
    Client::builder().clock(clock.clone()).url("memory:").build().await.unwrap()
}

#[tokio::test]
async fn a_job_is_skipped_while_another_machine_has_it() {
    let client = client(&FakeClock::new()).await;
    let job = client.mutex("report");
    let done = job
        .try_run(async |_| {
            assert_eq!(job.try_run(async |_| Ok::<_, Error>(2)).await?, None);
            Ok::<_, Error>(1)
        })
        .await;
    assert_eq!(done.unwrap(), Some(1));
    assert_eq!(job.try_run(async |_| Ok::<_, Error>(3)).await.unwrap(), Some(3));
}

#[tokio::test]
async fn a_job_that_failed_keeps_its_name_taken_too() {
    let client = client(&FakeClock::new()).await;
    let job = client.mutex("report").min_hold(LEAST);
    let failed: Result<Option<()>> = job.try_run(async |_| Err(Error::Closed)).await;
    assert!(matches!(failed, Err(Error::Closed)));
    assert!(job.try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn a_job_that_hangs_is_dropped_at_the_end_of_at_most_and_the_next_may_start() {
    let client = Client::memory();
    let limit = Duration::from_millis(100);
    let job = client.mutex("report").max_hold(limit);
    let error = job
        .try_run(async |_| {
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
    let job = client.mutex("report").min_hold(MOST).max_hold(LEAST);
    assert!(matches!(job.try_acquire().await, Err(Error::Invalid(_))));
}

/// The label of the last holder, 47 h after that.
async fn remembered(client: &Client, clock: &FakeClock) -> Option<String> {
    clock.advance(47 * MOST);
    let status = client.admin().inspect("report").await.unwrap();
    status.last_holder.and_then(|last| last.info.label)
}

#[tokio::test]
async fn who_ran_the_job_is_remembered_for_as_long_as_was_asked_for() {
    let clock = FakeClock::new();
    let client = client(&clock).await;
    let job =
        client.mutex("report").options(LeaseOptions::default().with_label(Some("job".into())));
    assert_eq!(job.try_run(async |_| Ok::<_, Error>(1)).await.unwrap(), Some(1));
    assert_eq!(remembered(&client, &clock).await, None);
    let job = job.remember(48 * MOST);
    assert_eq!(job.try_run(async |_| Ok::<_, Error>(2)).await.unwrap(), Some(2));
    assert_eq!(remembered(&client, &clock).await.as_deref(), Some("job"));
}

#[tokio::test]
async fn a_lease_that_is_to_be_remembered_is_not_passed_on_past_the_store() {
    let clock = FakeClock::new();
    let client = client(&clock).await;
    let first = client.mutex("report").acquire().await.unwrap();
    let second = client.mutex("report").label("second").remember(48 * MOST);
    let waiting = tokio::spawn(async move { second.acquire().await });
    for _ in 0..100 {
        tokio::task::yield_now().await; // it waits, be it here or at the store
    }
    first.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(remembered(&client, &clock).await.as_deref(), Some("second"));
}
