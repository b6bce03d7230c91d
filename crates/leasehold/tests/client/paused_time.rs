//! Leases in a test whose tokio time is paused.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::time::{Clock, SystemClock};
use leasehold::{Client, Error};
use tokio::time::{Instant, advance, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_limit_passes_when_the_paused_time_does() {
    let client = Client::memory();
    let _held = client.mutex("a").acquire().await.unwrap();
    let began = Instant::now();
    let refused = client.mutex("a").acquire_within(10 * SECOND).await;
    assert!(matches!(refused, Err(Error::Timeout { .. })), "{refused:?}");
    let passed = began.elapsed();
    assert!((10 * SECOND..20 * SECOND).contains(&passed), "{passed:?}");
    let waiting = client.mutex("a");
    assert!(timeout(3600 * SECOND, waiting.acquire()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_and_is_renewed_in_paused_time() {
    let client = Client::builder().url("memory:").build().await.unwrap();
    let kept = client.mutex("a").ttl(3 * SECOND).acquire().await.unwrap();
    let once = client.mutex("b").ttl(30 * SECOND).renewal(Renewal::Off).acquire().await.unwrap();
    sleep(20 * SECOND).await;
    assert!(kept.is_held() && once.is_held());
    advance(31 * SECOND).await;
    assert!(!once.is_held());
}

#[tokio::test(start_paused = true)]
async fn the_systems_clock_does_not_spin_beside_a_paused_time() {
    let (began, clock) = (Instant::now(), SystemClock::new());
    let at = clock.now() + Duration::from_millis(300);
    clock.sleep_until(at).await;
    assert!(clock.now() >= at);
    assert!(began.elapsed() < 10 * SECOND, "{:?} passed", began.elapsed());
}

#[tokio::test]
async fn a_client_in_a_runtime_whose_time_passes_has_its_own_keeper() {
    let client = Client::memory();
    let guard = client.mutex("a").ttl(SECOND / 2).acquire().await.unwrap();
    // The runtime is kept busy for longer than the lease.
    std::thread::sleep(SECOND);
    assert!(guard.is_held());
}
