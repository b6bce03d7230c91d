//! Calls: how many had which outcome, and how long they waited.

use std::time::Duration;

use leasehold_testkit::must;

use crate::scene::Scene;

const WAITED: Duration = Duration::from_secs(3);

/// How many calls for a mutex had this outcome.
fn ended(scene: &Scene, outcome: &str) -> f64 {
    let metric = format!("leasehold_acquires_total{{mode=exclusive,outcome={outcome}}}");
    scene.recorded().number(&metric)
}

#[tokio::test]
async fn a_grant_counts_with_the_time_from_the_call_to_it() {
    let scene = Scene::new().await;
    let taken = must(scene.other.mutex(&scene.name).acquire().await);
    let lock = scene.client.mutex(&scene.name);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    scene.subject.pass(WAITED).await;
    assert_eq!(scene.recorded().number("leasehold_waiting{mode=exclusive}"), 1.0);
    must(taken.release().await);
    let guard = must(must(scene.subject.drive(waiter).await));
    let recorded = scene.recorded();
    assert_eq!(recorded.of("leasehold_wait_seconds{mode=exclusive}"), [WAITED.as_secs_f64()]);
    assert_eq!(recorded.number("leasehold_waiting{mode=exclusive}"), 0.0);
    assert_eq!(recorded.number("leasehold_acquires_total{mode=exclusive,outcome=granted}"), 1.0);
    drop(guard);
}

#[tokio::test]
async fn a_call_without_a_grant_counts_as_busy_as_a_timeout_or_as_an_error() {
    let scene = Scene::new().await;
    let _taken = must(scene.other.mutex(&scene.name).acquire().await);
    let lock = scene.client.mutex(&scene.name);
    assert!(must(lock.try_acquire().await).is_none());
    assert_eq!(ended(&scene, "busy"), 1.0);
    for limit in [WAITED, Duration::ZERO] {
        assert!(scene.subject.drive(lock.acquire_within(limit)).await.is_err());
    }
    assert_eq!(ended(&scene, "timeout"), 2.0, "also where the limit is zero");
    must(scene.client.clone().close().await);
    assert!(lock.acquire().await.is_err());
    assert_eq!(ended(&scene, "error"), 1.0);
}

#[tokio::test]
async fn a_call_that_is_dropped_counts_as_cancelled() {
    let scene = Scene::new().await;
    let _taken = must(scene.other.mutex(&scene.name).acquire().await);
    let lock = scene.client.mutex(&scene.name);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    scene.subject.pass(WAITED).await;
    waiter.abort();
    assert!(waiter.await.is_err());
    let recorded = scene.recorded();
    assert_eq!(recorded.number("leasehold_acquires_total{mode=exclusive,outcome=cancelled}"), 1.0);
    assert_eq!(recorded.number("leasehold_waiting{mode=exclusive}"), 0.0);
}

#[tokio::test]
async fn a_call_for_several_names_counts_once_for_each() {
    let scene = Scene::new().await;
    let names = [scene.subject.fresh_name("a"), scene.name.clone()];
    let guard = must(scene.subject.drive(scene.client.multi(&names).acquire()).await);
    let recorded = scene.recorded();
    assert_eq!(recorded.number("leasehold_acquires_total{mode=exclusive,outcome=granted}"), 2.0);
    assert_eq!(recorded.number("leasehold_held{mode=exclusive}"), 2.0);
    must(scene.subject.drive(guard.release()).await);
    assert_eq!(scene.recorded().number("leasehold_held{mode=exclusive}"), 0.0);
}

#[tokio::test]
async fn an_adoption_counts_as_a_call_and_a_lease_that_cannot_be_adopted_as_an_error() {
    let scene = Scene::new().await;
    let lease = must(must(scene.other.mutex(&scene.name).acquire().await).into_lease());
    let adopted = must(scene.client.adopt(lease.clone()).await);
    assert_eq!(scene.recorded().number("leasehold_held{mode=exclusive}"), 1.0);
    assert!(scene.client.adopt(lease).await.is_err());
    assert_eq!((ended(&scene, "granted"), ended(&scene, "error")), (1.0, 1.0));
    must(adopted.release().await);
}
