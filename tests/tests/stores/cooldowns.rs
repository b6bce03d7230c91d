//! The cost for a job if its release does not reach the store.

use std::time::Duration;

use leasehold::store::Memory;
use leasehold::time::FakeClock;
use leasehold_testkit::{Faults, Faulty, Subject};

const TTL: Duration = Duration::from_secs(3);

/// Whether a job may start again after a release, if the store was unreachable for this long.
async fn starts_again_after_a_cut_of(span: Duration) -> bool {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
    let faults = Faults { timeout: TTL / 10, ..Faults::default() };
    let store = Faulty::new(subject.store(), clock, faults, 1);
    let client = subject.client_of(store.clone()).await;
    let job = client.mutex("report").ttl(TTL).min_hold(TTL * 20);
    let guard = subject.drive(job.acquire()).await.unwrap();
    store.cut(span);
    subject.drive(guard.release()).await.unwrap();
    subject.pass(TTL * 3).await;
    subject.drive(job.try_acquire()).await.unwrap().is_some()
}

#[tokio::test]
async fn a_job_keeps_its_name_if_its_release_reaches_the_store_before_its_lease_ends() {
    assert!(!starts_again_after_a_cut_of(TTL / 2).await);
}

#[tokio::test]
async fn a_job_frees_its_name_if_its_release_does_not_reach_the_store_before_its_lease_ends() {
    assert!(starts_again_after_a_cut_of(TTL * 2).await);
}
