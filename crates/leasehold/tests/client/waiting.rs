//! Waiters learn why they wait, and holders why their lease was not renewed: on a memory store that
//! can go away.

use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::event::Event;
use leasehold::time::FakeClock;
use leasehold::{Client, ClientBuilder, Error, LossReason};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::line::world::{TTL, Watched};

/// A client, and its events, in words.
async fn observed(store: &Watched) -> (Client, UnboundedReceiver<String>) {
    observed_by(store, |builder| builder).await
}

async fn observed_by(
    store: &Watched,
    how: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (Client, UnboundedReceiver<String>) {
    let (sender, told) = unbounded_channel();
    let observe = move |event: &Event<'_>| {
        let words = match event {
            Event::Waiting { request, cause: Some(cause), .. } => {
                format!("{} delayed: {cause}", request.name)
            }
            Event::Lost { lease, reason, cause, .. } => {
                let name = lease.name;
                let cause = cause.map(ToString::to_string);
                format!("{name} lost: {reason:?}, {}", cause.as_deref().unwrap_or("no trouble"))
            }
            Event::Overdue { lease, cause, .. } => {
                format!("{} overdue: {cause}", lease.name)
            }
            Event::Waiting { request, ahead, .. } => {
                format!("{} waits: {ahead:?}", request.name)
            }
            _ => return,
        };
        let _nobody_listens = sender.send(words);
    };
    let builder = how(Client::builder().store(store.clone()).observer(observe));
    match builder.build().await {
        Ok(client) => (client, told),
        Err(error) => panic!("{error}"),
    }
}

async fn next(told: &mut UnboundedReceiver<String>) -> String {
    match tokio::time::timeout(Duration::from_secs(60), told.recv()).await {
        Ok(Some(words)) => words,
        other => panic!("it is told nothing more: {other:?}"),
    }
}

const AWAY: Option<StoreErrorKind> = Some(StoreErrorKind::Unreachable);
const QUARANTINE: Option<StoreErrorKind> = Some(StoreErrorKind::Quarantined);

#[tokio::test]
async fn a_call_that_the_store_keeps_waiting_is_told_why_and_when_that_changes() {
    let store = Watched::default();
    let (client, mut told) = observed(&store).await;
    client.mutex("b").acquire().await.unwrap().release().await.unwrap();
    store.is(QUARANTINE);
    let lock = client.mutex("a");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    assert_eq!(next(&mut told).await, "a delayed: 10.0.0.5:6379: Quarantined");
    store.is(AWAY);
    assert_eq!(next(&mut told).await, "a delayed: 10.0.0.5:6379: Unreachable");
    store.is(None);
    drop(waiter.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_waiter_in_the_queue_is_told_of_an_outage_and_of_its_end() {
    let store = Watched::default();
    let other = Client::builder().store(store.clone()).build().await.unwrap();
    let held = other.mutex("a").acquire().await.unwrap();
    let (client, mut told) = observed(&store).await;
    let lock = client.mutex("a");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    assert_eq!(next(&mut told).await, "a waits: Some(0)");
    store.is(AWAY);
    assert_eq!(next(&mut told).await, "a delayed: 10.0.0.5:6379: Unreachable");
    store.is(None);
    assert_eq!(next(&mut told).await, "a waits: Some(0)");
    held.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_wait_that_ends_says_what_kept_it_from_the_lock() {
    let store = Watched::default();
    let (client, mut told) = observed(&store).await;
    let (other, _) = observed(&store).await;
    let held = other.mutex("a").acquire().await.unwrap();
    // A waiter that was in the queue, and one that never got there.
    let lock = client.mutex("a");
    let queued = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(4)).await });
    assert_eq!(next(&mut told).await, "a waits: Some(0)");
    store.is(QUARANTINE);
    let refused = client.mutex("b").acquire_within(Duration::from_millis(50)).await;
    for ended in [refused, queued.await.unwrap()] {
        let Err(Error::Store(error)) = ended else { panic!("{ended:?}") };
        assert_eq!(Some(error.kind()), QUARANTINE);
        assert_eq!(error.to_string(), "10.0.0.5:6379: Quarantined");
    }
    drop(held);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_is_lost_with_the_newest_reason() {
    let clock = FakeClock::new();
    let store = Watched::with_clock(&clock);
    let (client, mut told) = observed_by(&store, |builder| builder.clock(clock.clone())).await;
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    store.is(Some(StoreErrorKind::Timeout));
    clock.advance(TTL / 2);
    assert_eq!(next(&mut told).await, "a overdue: 10.0.0.5:6379: Timeout");
    store.is(AWAY);
    clock.advance(TTL / 10);
    assert_eq!(next(&mut told).await, "a overdue: 10.0.0.5:6379: Unreachable");
    clock.advance(TTL);
    assert_eq!(guard.lost().await, Some(LossReason::Expired));
    assert_eq!(next(&mut told).await, "a lost: Expired, 10.0.0.5:6379: Unreachable");
}

#[tokio::test]
async fn a_lease_that_is_revoked_after_an_outage_is_not_lost_because_of_that() {
    let clock = FakeClock::new();
    let store = Watched::with_clock(&clock);
    let (client, mut told) = observed_by(&store, |builder| builder.clock(clock.clone())).await;
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    store.is(AWAY);
    clock.advance(TTL / 2);
    assert_eq!(next(&mut told).await, "a overdue: 10.0.0.5:6379: Unreachable");
    store.is(None);
    guard.renew().await.unwrap();
    assert!(client.admin().revoke(guard.name(), guard.token()).await.unwrap());
    assert_eq!(guard.lost().await, Some(LossReason::Revoked));
    assert_eq!(next(&mut told).await, "a lost: Revoked, no trouble");
}
