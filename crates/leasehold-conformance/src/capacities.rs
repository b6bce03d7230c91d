//! Cases of semaphores whose capacity differs between requests, or is changed while they are in
//! use.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use leasehold::Error;
use leasehold::admin::HolderId;
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;
use leasehold::store::protocol::{Action, LOCK_CAPACITY, Refusal, Reply};

use crate::bench::{Bench, LONG, granted, somebody};
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
    let (other, behind) = (somebody(), somebody());
    let Reply::Queued(place) = bench.acquire(other, permits(2, 8)).await else { panic!() };
    assert_eq!((place.ahead, place.other_capacity), (0, Some(4)));
    bench.wait(behind, permits(1, 4)).await;
    assert_eq!(bench.status().await.waiters[0].mode, permits(2, 8));
    bench.release(one).await;
    assert_eq!(bench.holders().await, [two]);
    bench.release(two).await;
    assert_eq!(bench.holders().await, [other]);
    assert_eq!(bench.status().await.holders[0].mode, permits(2, 8));
    let Reply::Queued(place) = bench.poll(behind).await else { panic!() };
    assert_eq!((place.ahead, place.other_capacity), (0, Some(8)));
    bench.release(other).await;
    assert_eq!(bench.holders().await, [behind]);
}

/// A new capacity takes effect in the same step, for requests with the old capacity and the new
/// one.
pub async fn a_capacity_that_is_set_counts_in_the_same_step_for_old_and_new_requests(
    subject: &Subject,
) {
    let Some((bench, [one, two])) = held_by_two(subject, 2).await else { return };
    let (old, new) = (somebody(), somebody());
    bench.wait(old, permits(1, 2)).await;
    bench.wait(new, permits(1, 4)).await;
    assert_eq!(bench.set_capacity(4).await, Reply::CapacitySet { before: Some(2) });
    assert_eq!(bench.holders().await, [one, two, old, new]);
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 4 });
    assert_eq!(bench.try_acquire(somebody(), permits(1, 3)).await, mismatch);
    for id in [one, two, old, new] {
        bench.release(id).await;
    }
    assert_eq!(bench.set_capacity(4).await, Reply::CapacitySet { before: None });
    bench.take(one_more(&bench).await, Mode::Exclusive).await;
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
    assert_eq!(bench.set_capacity(4).await, mismatch, "a lock has none");
}

/// Checks that a free name takes the capacity of the next request, and returns a new caller.
async fn one_more(bench: &Bench<'_>) -> HolderId {
    let id = somebody();
    bench.take(id, permits(1, 2)).await;
    assert_eq!(bench.status().await.holders[0].mode, permits(1, 2), "what was set is over");
    bench.release(id).await;
    somebody()
}

/// Lowering the capacity ends no hold, and nothing is granted until the held permits fit.
pub async fn a_capacity_that_is_lowered_ends_no_hold_and_grants_nothing_until_it_fits(
    subject: &Subject,
) {
    let Some((bench, [one, two])) = held_by_two(subject, 4).await else { return };
    let third = somebody();
    bench.take(third, permits(1, 4)).await;
    assert_eq!(bench.set_capacity(2).await, Reply::CapacitySet { before: Some(4) });
    assert_eq!(bench.holders().await, [one, two, third]);
    let next = somebody();
    bench.wait(next, permits(1, 4)).await;
    bench.release(one).await;
    assert_eq!(bench.holders().await, [two, third]);
    bench.release(two).await;
    assert_eq!(bench.holders().await, [third, next]);
}

/// A lease is renewed and adopted under a capacity that was set after its grant.
pub async fn a_lease_is_adopted_and_renewed_under_a_capacity_that_was_set(subject: &Subject) {
    let Some((bench, [one, two])) = held_by_two(subject, 2).await else { return };
    bench.set_capacity(3).await;
    let renewal = Action::Renew { id: one, ttl: LONG, mode: permits(1, 2), change: 0 };
    let token = granted(bench.act(renewal).await).token;
    let adopter = somebody();
    let adopt = bench.adoption(adopter, (one, token), permits(1, 2)).await;
    granted(bench.act(Action::Adopt(adopt)).await);
    assert_eq!(bench.holders().await, [two, adopter]);
}

/// While clients with two capacities come and go, none fails, and neither capacity is exceeded.
pub async fn a_rolling_deployment_with_another_capacity_fails_nobody(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let (name, held) = (subject.fresh_name("deployment"), [AtomicU32::new(0), AtomicU32::new(0)]);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(subject.client().await);
    }
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
    assert_eq!(must(subject.drive(clients[1].admin().set_capacity(&name, 4)).await), Some(2));
    let other = must(subject.drive(clients[1].semaphore(&name, 4).permit().try_acquire()).await);
    assert!(other.is_some());
    drop((guard, other));
}
