//! Cases of semaphores whose capacity differs between requests.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use leasehold::Error;
use leasehold::admin::HolderId;
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;

use crate::bench::{Bench, granted, somebody};
use crate::subject::{Subject, must};

/// The number of clients of the old release of a program, and of the new one.
const CLIENTS: u32 = 4;

/// How often each client takes a permit.
const ROUNDS: u32 = 3;

fn permits(count: u32, capacity: u32) -> Mode {
    Mode::Permits { count, capacity }
}

/// A bench with two holders, each of one of `capacity` permits, if the store has permits and a
/// queue.
async fn held_by_two(subject: &Subject, capacity: u32) -> Option<(Bench<'_>, [HolderId; 2])> {
    let can = subject.can();
    if !(can.queued && can.permits) {
        return None;
    }
    let (bench, two) = (Bench::new(subject), [somebody(), somebody()]);
    for id in two {
        bench.take(id, permits(1, capacity)).await;
    }
    Some((bench, two))
}

/// A request for another capacity waits until nobody holds, and nobody overtakes it.
pub async fn who_asks_for_another_capacity_waits_until_nobody_holds(subject: &Subject) {
    let Some((bench, [one, two])) = held_by_two(subject, 4).await else { return };
    let (gone, next, other, behind) = (somebody(), somebody(), somebody(), somebody());
    bench.wait(gone, permits(1, 8)).await;
    bench.wait(next, permits(1, 4)).await;
    bench.release(gone).await;
    granted(bench.ask(next, permits(1, 4)).await);
    assert_eq!(bench.holders().await, [one, two, next]);
    bench.release(next).await;
    let place = bench.wait(other, permits(2, 8)).await;
    assert_eq!((place.ahead, place.other_capacity), (0, Some(4)));
    bench.wait(behind, permits(1, 4)).await;
    assert_eq!(bench.status().await.waiters[0].mode, permits(2, 8));
    bench.release(one).await;
    assert_eq!(bench.holders().await, [two]);
    bench.release(two).await;
    assert_eq!(bench.holders().await, [other]);
    assert_eq!(bench.status().await.holders[0].mode, permits(2, 8));
    let place = bench.wait(behind, permits(1, 4)).await;
    assert_eq!((place.ahead, place.other_capacity), (0, Some(8)));
    bench.release(other).await;
    assert_eq!(bench.holders().await, [behind]);
}

/// While clients with two capacities come and go, none fails, and neither capacity is exceeded.
pub async fn a_rolling_deployment_with_another_capacity_fails_nobody(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let (name, held) = (subject.fresh_name("deployment"), [AtomicU32::new(0), AtomicU32::new(0)]);
    let clients = subject.clients(CLIENTS).await;
    let work = clients.iter().flat_map(|client| [(client, 0, 2), (client, 1, 4)]);
    let work = work.map(async |(client, own, capacity)| {
        for _ in 0..ROUNDS {
            let guard = must(client.semaphore(&name, capacity).permit().acquire().await);
            assert!(held[own].fetch_add(1, Ordering::SeqCst) < capacity);
            tokio::task::yield_now().await;
            assert_eq!(held[1 - own].load(Ordering::SeqCst), 0, "two capacities are never mixed");
            held[own].fetch_sub(1, Ordering::SeqCst);
            must(guard.release().await);
        }
    });
    subject.drive(join_all(work)).await;
    let guard = must(subject.drive(clients[0].semaphore(&name, 2).permit().acquire()).await);
    match subject.drive(clients[1].semaphore(&name, 4).permit().try_acquire()).await {
        Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Mismatch),
        other => panic!("{other:?}"),
    }
    drop(guard);
}
