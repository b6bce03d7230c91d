//! Gauges that go up come down again, whatever happens to a call and to its lease.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::Guard;
use leasehold_testkit::must;

use crate::scene::Scene;

/// No call of these tests is polled more often before it ends.
const MOST_POLLS: u32 = 40;

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Checks that nothing is held or awaited, in any mode.
fn assert_empty(scene: &Scene, what: &str) {
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
    assert!(acquires > 0.0, "something was asked for {what}");
}

/// Polls a call this many times, while the lock is released after `held_for`, and drops the rest.
async fn drop_after(
    scene: &Scene,
    mut call: Pin<Box<dyn Future<Output = leasehold::Result<Guard>> + '_>>,
    mut taken: Option<Guard>,
    (polls, held_for): (u32, u32),
) -> bool {
    let mut was_granted = false;
    for poll in 0..polls {
        if poll == held_for {
            drop(taken.take());
        }
        if let Poll::Ready(granted) = poll_once(call.as_mut()) {
            drop(must(granted));
            was_granted = true;
            break;
        }
        scene.subject.pass(Duration::from_millis(2)).await;
    }
    was_granted
}

#[tokio::test]
async fn nothing_is_held_nor_waits_after_an_acquire_that_is_dropped_at_any_point() {
    for held_for in [0, 2, 5, 12] {
        let mut granted = 0;
        for polls in 1..MOST_POLLS {
            let scene = Scene::slow().await;
            let taken = match held_for {
                0 => None,
                _ => {
                    Some(must(scene.subject.drive(scene.other.mutex(&scene.name).acquire()).await))
                }
            };
            let lock = scene.client.mutex(&scene.name);
            let call = Box::pin(lock.acquire());
            granted += u32::from(drop_after(&scene, call, taken, (polls, held_for)).await);
            scene.subject.pass(Duration::from_millis(400)).await;
            assert_empty(&scene, &format!("after {polls} polls, let go after {held_for}"));
        }
        assert!(granted > 0, "the sweep has come to the end of the acquire");
    }
}

#[tokio::test]
async fn nothing_is_held_nor_waits_after_a_call_for_several_names_that_is_dropped_at_any_point() {
    for polls in 1..2 * MOST_POLLS {
        let scene = Scene::slow().await;
        let names = ["a", "b"].map(|name| scene.subject.fresh_name(name));
        let taken = must(scene.subject.drive(scene.other.mutex(&names[1]).acquire()).await);
        let lock = scene.client.multi(&names);
        drop_after(&scene, Box::pin(lock.acquire()), Some(taken), (polls, 5)).await;
        scene.subject.pass(Duration::from_secs(3)).await;
        assert_empty(&scene, &format!("after {polls} polls"));
    }
}

#[tokio::test]
async fn nothing_is_held_nor_waits_after_an_adoption_that_is_dropped_at_any_point() {
    for polls in 1..MOST_POLLS {
        let scene = Scene::slow().await;
        let guard = must(scene.subject.drive(scene.other.mutex(&scene.name).acquire()).await);
        let lease = must(guard.into_lease());
        let adopt = Box::pin(scene.client.adopt(lease));
        drop_after(&scene, adopt, None, (polls, 0)).await;
        scene.subject.pass(Duration::from_millis(400)).await;
        assert_empty(&scene, &format!("after {polls} polls"));
    }
}

#[tokio::test]
async fn nothing_is_held_nor_waits_in_a_client_that_was_closed() {
    let scene = Scene::new().await;
    let held = must(scene.client.mutex(&scene.name).acquire().await);
    let lock = scene.client.mutex(&scene.name);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    scene.subject.pass(Duration::from_secs(1)).await;
    must(scene.subject.drive(scene.client.clone().close()).await);
    assert!(must(waiter.await).is_err());
    assert_empty(&scene, "after the close");
    drop(held);
    assert_empty(&scene, "after the guard, too");
}
