//! Batching under one lock, on the memory store.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use leasehold::{Client, Error, Guard, LossReason};
use leasehold_data::{BatchLimits, Batcher};
use leasehold_testkit::harness::soon;

fn limits(change: impl FnOnce(&mut BatchLimits)) -> BatchLimits {
    let mut limits = BatchLimits::default();
    change(&mut limits);
    limits
}

async fn double(_: Guard, items: Vec<u32>) -> Vec<u32> {
    items.into_iter().map(|item| item * 2).collect()
}

/// The batches of a batcher.
type Noted = Arc<Mutex<Vec<Vec<u32>>>>;

fn noting(client: &Client, limits: BatchLimits) -> (Batcher<u32, u32>, Noted) {
    let batches = Noted::default();
    let noted = Arc::clone(&batches);
    let work = move |guard, items: Vec<u32>| {
        noted.lock().unwrap().push(items.clone());
        double(guard, items)
    };
    (Batcher::start(client.mutex("a"), limits, work).unwrap(), batches)
}

/// A client whose waiters all stand in the queue of the store, where they are visible.
async fn client_with_visible_waiters() -> Client {
    Client::builder().url("memory:").slice(Duration::ZERO).build().await.unwrap()
}

async fn until_waiting(client: &Client, busy: &Guard, waiting: usize) {
    while client.admin().inspect(busy.name()).await.unwrap().waiting as usize != waiting {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn items_that_came_while_the_lock_was_busy_share_one_acquisition() {
    let client = client_with_visible_waiters().await;
    let busy = client.mutex("a").acquire().await.unwrap();
    let (batcher, batches) = noting(&client, BatchLimits::default());
    let results = join_all((0..100).map(|item| batcher.submit(item)));
    let release = async {
        until_waiting(&client, &busy, 1).await;
        busy.release().await.unwrap();
    };
    let ((), results) = tokio::join!(release, results);
    for (item, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap() as usize, item * 2);
    }
    assert_eq!(batches.lock().unwrap().len(), 1);
    batcher.close().await;
}

#[tokio::test]
async fn a_batch_is_no_larger_than_it_may_be_and_keeps_the_order() {
    let client = Client::memory();
    let limits = limits(|limits| {
        limits.max_items = NonZeroUsize::new(7).unwrap();
        limits.max_delay = Duration::from_millis(5);
    });
    let (batcher, seen) = noting(&client, limits);
    join_all((0..50).map(|item| batcher.submit(item))).await;
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|batch| batch.len() <= 7), "{seen:?}");
    assert_eq!(seen.concat(), (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_item_that_fails_fails_alone() {
    let client = Client::memory();
    let work = |_, items: Vec<u32>| async move {
        items.into_iter().map(|item| if item == 3 { Err("three") } else { Ok(item) }).collect()
    };
    let batcher = Batcher::start(client.mutex("a"), BatchLimits::default(), work).unwrap();
    let results = join_all((0..5).map(|item| batcher.submit(item))).await;
    for (item, result) in (0..).zip(results) {
        assert_eq!(result.unwrap(), if item == 3 { Err("three") } else { Ok(item) });
    }
}

#[tokio::test]
async fn a_lost_lease_fails_what_was_in_work_and_the_next_batch_goes_on() {
    let client = Client::memory();
    let lock = client.mutex("a").ttl(Duration::from_secs(2));
    let hangs = Arc::new(AtomicUsize::new(1));
    let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
    let batcher = Batcher::start(lock, BatchLimits::default(), move |guard: Guard, items| {
        let hangs = hangs.fetch_sub(hangs.load(Ordering::Relaxed), Ordering::Relaxed) > 0;
        let started = started.clone();
        async move {
            started.send((guard.name().clone(), guard.token())).unwrap();
            if hangs {
                std::future::pending::<()>().await;
            }
            double(guard, items).await
        }
    });
    let batcher = Arc::new(batcher.unwrap());
    let first = tokio::spawn({
        let batcher = Arc::clone(&batcher);
        async move { batcher.submit(1).await }
    });
    let (name, token) = has_started.recv().await.unwrap();
    assert!(client.admin().revoke(&name, token).await.unwrap());
    let second = batcher.submit(2);
    let (first, second) = tokio::join!(first, second);
    let error = first.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LossReason::Revoked, .. }), "{error}");
    assert_eq!(second.unwrap(), 4);
}

#[tokio::test]
async fn an_item_that_is_withdrawn_before_its_turn_is_not_processed() {
    let client = Client::memory();
    let busy = client.mutex("a").acquire().await.unwrap();
    let (batcher, seen) = noting(&client, BatchLimits::default());
    let given_up = tokio::time::timeout(Duration::from_millis(5), batcher.submit(1)).await;
    assert!(given_up.is_err());
    let (released, kept) = tokio::join!(busy.release(), batcher.submit(2));
    released.unwrap();
    assert_eq!(kept.unwrap(), 4);
    assert_eq!(*seen.lock().unwrap(), [[2]]);
}

#[tokio::test]
async fn a_batcher_whose_items_were_all_withdrawn_waits_no_longer_for_the_lock() {
    let client = client_with_visible_waiters().await;
    let busy = client.mutex("a").acquire().await.unwrap();
    let batcher = Batcher::start(client.mutex("a"), BatchLimits::default(), double).unwrap();
    let mut given_up = Box::pin(batcher.submit(1));
    assert!(given_up.as_mut().now_or_never().is_none());
    until_waiting(&client, &busy, 1).await;
    let mut kept = Box::pin(batcher.submit(2));
    assert!(kept.as_mut().now_or_never().is_none());
    drop(given_up);
    drop(kept);
    soon(batcher.close()).await;
    until_waiting(&client, &busy, 0).await;
}

#[tokio::test]
async fn work_is_not_called_without_items() {
    let client = client_with_visible_waiters().await;
    let busy = client.mutex("a").acquire().await.unwrap();
    let (batcher, batches) = noting(&client, BatchLimits::default());
    let mut given_up = Box::pin(batcher.submit(1));
    assert!(given_up.as_mut().now_or_never().is_none());
    until_waiting(&client, &busy, 1).await;
    drop(given_up);
    busy.release().await.unwrap();
    batcher.close().await;
    assert!(batches.lock().unwrap().is_empty());
}

#[tokio::test]
async fn closing_processes_what_was_handed_in_and_a_wrong_number_of_results_is_told() {
    let client = Client::memory();
    let work = |_, _: Vec<u32>| async { vec![0_u32; 0] };
    let batcher = Batcher::start(client.mutex("a"), BatchLimits::default(), work).unwrap();
    let error = batcher.submit(1).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(refusal) if refusal.what == "results"), "{error}");
    batcher.close().await;
    client.mutex("a").try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

#[test]
fn a_batcher_outside_of_a_runtime_is_refused() {
    let client = Client::memory();
    let refused = Batcher::start(client.mutex("a"), BatchLimits::default(), double);
    assert!(matches!(refused, Err(Error::Invalid(_))));
}
