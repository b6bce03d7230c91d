//! The first call of a client: it obeys its limit, and waits out what later calls wait out.

use std::time::Duration;

use leasehold::store::Memory;
use leasehold::{Client, Error};
use leasehold_core::{FakeClock, StoreErrorKind};
use leasehold_testkit::harness::acquiring;
use leasehold_testkit::{Faults, Faulty, Proxy, RedisServer};
use tokio::task::yield_now;

/// Far beyond every limit that connecting has.
const LONG: Duration = Duration::from_secs(600);

/// Lets time pass, and lets every task do what is due.
async fn pass(clock: &FakeClock, span: Duration) {
    let step = Duration::from_millis(100);
    for _ in 0..span.as_millis() / step.as_millis() {
        clock.advance(step);
        for _ in 0..10 {
            yield_now().await;
        }
    }
}

/// A client of a store that is away, and that the client has never reached.
async fn newcomer(clock: &FakeClock) -> (Client, Faulty) {
    let store = Memory::with_clock(clock.clone());
    let faulty = Faulty::new(store, clock.clone(), Faults::default(), 1);
    faulty.cut(LONG * 10);
    let client = Client::builder().store(faulty.clone()).clock(clock.clone()).build().await;
    (client.unwrap(), faulty)
}

#[tokio::test]
async fn a_store_that_was_never_reached_is_waited_for_as_one_that_was() {
    let clock = FakeClock::new();
    let (client, store) = newcomer(&clock).await;
    let waiter = acquiring(client.mutex("a"));
    pass(&clock, LONG).await;
    assert!(!waiter.is_finished());
    store.heal();
    pass(&clock, Duration::from_secs(10)).await;
    assert!(waiter.is_finished());
    assert!(waiter.await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn a_limit_ends_the_wait_for_a_store_that_was_never_reached() {
    let clock = FakeClock::new();
    for limit in [Duration::ZERO, Duration::from_millis(10), Duration::from_secs(60)] {
        let (client, _store) = newcomer(&clock).await;
        let lock = client.mutex("a");
        let waiter = tokio::spawn(async move { lock.acquire_within(limit).await });
        pass(&clock, limit / 2).await;
        assert!(!waiter.is_finished(), "{limit:?}");
        pass(&clock, limit / 2 + Duration::from_secs(5)).await;
        assert!(waiter.is_finished(), "{limit:?}");
        let outcome = waiter.await.unwrap();
        // The acquire itself is the first request.
        assert!(matches!(outcome, Err(Error::Indeterminate { .. })), "{limit:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_closed_client_does_not_wait_for_a_store_that_was_never_reached() {
    let clock = FakeClock::new();
    let (client, _store) = newcomer(&clock).await;
    let waiter = acquiring(client.mutex("a"));
    pass(&clock, Duration::from_secs(5)).await;
    let closing = tokio::spawn(client.close());
    pass(&clock, Duration::from_secs(5)).await;
    assert!(waiter.is_finished());
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    // The acquire may have arrived, and its end has not.
    pass(&clock, Duration::from_secs(1)).await;
    assert!(closing.is_finished());
    let unreached = closing.await.unwrap().unwrap_err();
    assert!(matches!(&unreached, Error::Store(error) if error.kind() == StoreErrorKind::Timeout));
}

#[tokio::test]
async fn a_limit_shorter_than_the_line_is_long_is_a_timeout_or_a_grant() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let near = Client::connect(&server.patient_url()).await.unwrap();
    let url = format!("{}?timeout=30s", proxy.url());
    for limit in [0, 1, 10].map(Duration::from_millis) {
        proxy.delay(Duration::from_millis(30));
        let first = async || Client::connect(&url).await.unwrap().mutex("a");
        let guard = first().await.acquire_within(limit).await.expect("it is free");
        guard.release().await.unwrap();
        let guard = near.mutex("a").acquire().await.unwrap();
        let busy = first().await.acquire_within(limit).await;
        assert!(matches!(busy, Err(Error::Timeout { .. })), "{limit:?}: {busy:?}");
        guard.release().await.unwrap();
    }
}
