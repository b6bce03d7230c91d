//! Futures that are dropped at every point leave nothing behind: no lease, no place in a queue, and
//! no gauge that went up and does not come down again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{Guard, LockName};
use leasehold_testkit::must;

use crate::scene::Scene;

/// No call of these tests is polled more often before it ends.
const MOST_POLLS: u32 = 40;

/// How soon a lock must be free after an acquire was dropped: a few requests. It must not depend on
/// the end of a lease or of a claim.
const SOON: Duration = Duration::from_millis(400);

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future this many times, and drops it. The guard of another is dropped before the poll
/// with this number.
async fn drop_after<T>(
    polls: u32,
    scene: &Scene,
    future: impl Future<Output = T>,
    (mut guard, held_for): (Option<Guard>, u32),
) -> Option<T> {
    let mut future = Box::pin(future);
    for poll in 0..polls {
        if poll == held_for {
            drop(guard.take());
        }
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return Some(output);
        }
        scene.subject.pass(Duration::from_millis(2)).await;
    }
    None
}

/// The guard of another client, unless the lock shall be free from the beginning.
async fn held(scene: &Scene, name: &LockName, held_for: u32) -> (Option<Guard>, u32) {
    let lock = scene.other.mutex(name);
    let guard = match held_for {
        0 => None,
        _ => Some(must(scene.subject.drive(lock.acquire()).await)),
    };
    (guard, held_for)
}

async fn assert_soon_free(scene: &Scene, name: &LockName, what: &str) {
    for _ in 0..SOON.as_millis() / 10 {
        scene.subject.pass(Duration::from_millis(10)).await;
        let status = must(scene.subject.drive(scene.other.admin().inspect(name)).await);
        if status.holders.is_empty() && status.waiting == 0 {
            return;
        }
    }
    panic!("something was left behind of {name}, {what}");
}

/// Checks that nothing is held or awaited, in any mode. Returns how many calls were counted.
fn assert_empty(scene: &Scene, what: &str) -> f64 {
    let recorded = scene.recorded();
    let mut acquires = 0.0;
    for key in recorded.keys() {
        if key.starts_with("leasehold_held") || key.starts_with("leasehold_waiting") {
            assert_eq!(recorded.number(key), 0.0, "{key} {what}");
        }
        if key.starts_with("leasehold_acquires_total") {
            acquires += recorded.number(key);
        }
    }
    acquires
}

#[tokio::test]
async fn an_acquire_that_is_dropped_at_any_point_leaves_nothing_behind() {
    for held_for in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12] {
        let (mut granted, mut counted) = (0, 0.0);
        for polls in 0..MOST_POLLS {
            let scene = Scene::slow(u64::from(polls * 100 + held_for)).await;
            let (name, lock) = (&scene.name, scene.client.mutex(&scene.name));
            let guard = held(&scene, name, held_for).await;
            let was_granted = drop_after(polls, &scene, lock.acquire(), guard).await;
            granted += u32::from(was_granted.map(must).is_some());
            let what = format!("after {polls} polls, let go after {held_for}");
            assert_soon_free(&scene, name, &what).await;
            scene.subject.pass(SOON).await;
            counted += assert_empty(&scene, &what);
        }
        assert!(granted > 0 && counted > 0.0, "the sweep has come to the end of the acquire");
    }
}

/// The lease is then unchanged, or has ended: it never has an unknown holder.
#[tokio::test]
async fn an_adoption_that_is_dropped_at_any_point_leaves_the_lease_as_it_was_or_ends_it() {
    let (mut was_left, mut has_ended, mut counted) = (0, 0, 0.0);
    for polls in 0..MOST_POLLS {
        let scene = Scene::slow(u64::from(polls)).await;
        let guard = must(scene.subject.drive(scene.other.mutex(&scene.name).acquire()).await);
        let lease = must(guard.into_lease());
        drop(drop_after(polls, &scene, scene.client.adopt(lease.clone()), (None, 0)).await);
        scene.subject.pass(SOON).await;
        let what = format!("after {polls} polls");
        counted += assert_empty(&scene, &what);
        match scene.subject.drive(scene.other.adopt(lease)).await {
            Ok(guard) => {
                was_left += 1;
                must(scene.subject.drive(guard.release()).await);
            }
            Err(_) => has_ended += 1,
        }
        assert_soon_free(&scene, &scene.name, &what).await;
    }
    assert!(was_left > 0 && has_ended > 0 && counted > 0.0, "{was_left} and {has_ended}");
}

#[tokio::test]
async fn several_names_that_are_dropped_at_any_point_leave_nothing_behind() {
    let mut counted = 0.0;
    for polls in 0..2 * MOST_POLLS {
        for held_for in [0, 3, 12] {
            let scene = Scene::slow(u64::from(polls * 100 + held_for)).await;
            let names = ["a", "m", "z"].map(|name| scene.subject.fresh_name(name));
            let guard = held(&scene, &names[1], held_for).await;
            let lock = scene.client.multi(&names);
            drop(drop_after(polls, &scene, lock.acquire(), guard).await);
            let what = format!("after {polls} polls, let go after {held_for}");
            for name in &names {
                assert_soon_free(&scene, name, &what).await;
            }
            scene.subject.pass(Duration::from_secs(3)).await;
            counted += assert_empty(&scene, &what);
        }
    }
    assert!(counted > 0.0);
}

#[tokio::test]
async fn a_release_or_a_try_that_is_dropped_at_any_point_leaves_nothing_behind() {
    for polls in 0..MOST_POLLS {
        let scene = Scene::slow(u64::from(polls)).await;
        let lock = scene.client.mutex(&scene.name);
        for releases in [false, true] {
            let future: Pin<Box<dyn Future<Output = ()>>> = match releases {
                true => {
                    let guard = must(scene.subject.drive(lock.acquire()).await);
                    Box::pin(async move { must(guard.release().await) })
                }
                false => Box::pin(async { drop(must(lock.try_acquire().await)) }),
            };
            drop_after(polls, &scene, future, (None, 0)).await;
            assert_soon_free(&scene, &scene.name, &format!("after {polls} polls")).await;
        }
    }
}

#[tokio::test]
async fn what_is_dropped_while_the_store_cannot_be_reached_is_given_back_once_it_can() {
    for waits in [false, true] {
        let scene = Scene::slow(1).await;
        let lock = scene.client.mutex(&scene.name);
        let outage = Duration::from_secs(4);
        if waits {
            let guard = must(scene.subject.drive(scene.other.mutex(&scene.name).acquire()).await);
            let mut acquire = Box::pin(lock.acquire());
            for _ in 0..MOST_POLLS {
                assert!(poll_once(acquire.as_mut()).is_pending());
                scene.subject.pass(Duration::from_millis(2)).await;
            }
            scene.network.cut(outage);
            drop(acquire);
            drop(guard);
        } else {
            let guard = must(scene.subject.drive(lock.acquire()).await);
            scene.network.cut(outage);
            drop(guard);
        }
        scene.subject.pass(outage + Duration::from_secs(1)).await;
        assert_soon_free(&scene, &scene.name, &format!("a waiter's: {waits}")).await;
    }
}

#[tokio::test]
async fn nothing_is_held_nor_waits_in_a_client_that_was_closed() {
    let scene = Scene::slow(1).await;
    let held = must(scene.subject.drive(scene.client.mutex(&scene.name).acquire()).await);
    let lock = scene.client.mutex(&scene.name);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    scene.subject.pass(Duration::from_secs(1)).await;
    must(scene.subject.drive(scene.client.clone().close()).await);
    assert!(must(waiter.await).is_err());
    assert!(assert_empty(&scene, "after the close") > 0.0);
    drop(held);
    assert_empty(&scene, "after the guard, too");
}
