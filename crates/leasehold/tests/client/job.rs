//! Jobs that run once, on the memory store with a clock that the test moves.

use std::time::Duration;

use leasehold::time::FakeClock;
use leasehold::{Client, Error, Guard, Result};

const LEAST: Duration = Duration::from_secs(30);

async fn client(clock: &FakeClock) -> Client {
    Client::builder().clock(clock.clone()).url("memory:").build().await.unwrap()
}

#[tokio::test]
async fn a_job_that_failed_keeps_its_name_taken_too() {
    let job = Client::memory().mutex("report").min_hold(LEAST);
    let failed: Result<Option<()>> = job.try_run(async |_| Err(Error::Closed)).await;
    assert!(matches!(failed, Err(Error::Closed)));
    assert!(job.try_acquire().await.unwrap().is_none());
}

const DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn a_run_that_succeeded_is_enough_for_its_span_and_one_that_failed_is_not() {
    let clock = FakeClock::new();
    let client = client(&clock).await;
    let job = client.mutex("report").label("job").once_per(DAY);
    let failed: Result<Option<()>> = job.try_run(async |_| Err(Error::Closed)).await;
    assert!(matches!(failed, Err(Error::Closed)));
    drop(job.acquire().await.unwrap());
    job.acquire().await.unwrap().release().await.unwrap();
    let run = async |guard: &Guard| Ok::<_, Error>((clock.advance(LEAST / 2), guard.token()).1);
    let ran = job.run(run).await.unwrap();
    clock.advance(LEAST / 2);
    let Err(Error::AlreadyDone { last, next_in: left, .. }) = job.try_acquire().await else {
        panic!("it was done")
    };
    assert_eq!((last.token, last.info.label.as_deref()), (ran, Some("job")));
    assert_eq!((last.ended_ago, left), (LEAST / 2, DAY - LEAST));
    client.mutex("report").acquire().await.unwrap().done().await.unwrap();
    clock.advance(left - Duration::from_millis(1));
    assert!(matches!(job.acquire().await, Err(Error::AlreadyDone { .. })), "it did not ask");
    clock.advance(Duration::from_millis(1));
    assert_eq!(job.try_run(async |_| Ok::<_, Error>(1)).await.unwrap(), Some(1));
}

#[tokio::test]
async fn who_waits_for_a_run_that_succeeds_is_not_granted_the_name() {
    let client = client(&FakeClock::new()).await;
    let first = client.mutex("report").once_per(DAY).acquire().await.unwrap();
    let second = client.mutex("report").once_per(DAY);
    let waiting = tokio::spawn(async move { second.acquire().await });
    let waits = async || client.admin().inspect("report").await.unwrap().waiting == 1;
    while !waits().await {
        tokio::task::yield_now().await;
    }
    first.done().await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(Error::AlreadyDone { .. })));
    client.mutex("report").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_last_guard_to_end_says_whether_the_run_has_succeeded_unless_it_is_lost() {
    let clock = FakeClock::new();
    let client = client(&clock).await;
    let job = client.mutex("report").once_per(DAY);
    let outer = job.acquire().await.unwrap();
    outer.reenter().unwrap().done().await.unwrap();
    outer.release().await.unwrap();
    let late = job.clone().max_hold(LEAST / 2).acquire().await.unwrap();
    clock.advance(LEAST / 2);
    assert!(matches!(late.done().await, Err(Error::Lost { .. })));
    drop(job.acquire().await.unwrap());
}
