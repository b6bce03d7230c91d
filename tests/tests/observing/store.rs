//! Requests to the store: how long they take, which of them fail, and that the store is back.

use std::time::Duration;

use leasehold_testkit::must;

use crate::scene::{Scene, TTL};

#[tokio::test]
async fn every_round_trip_is_counted_by_what_it_does_with_the_time_that_it_took() {
    let scene = Scene::slow(1).await;
    let guard = must(scene.subject.drive(scene.client.mutex(&scene.name).acquire()).await);
    must(scene.subject.drive(guard.release()).await);
    must(scene.subject.drive(scene.client.admin().inspect(&scene.name)).await);
    let recorded = scene.recorded();
    for operation in ["look", "take", "end"] {
        let took = recorded.of(&format!("leasehold_store_seconds{{operation={operation}}}"));
        assert!(matches!(took, [took] if (0.0..=0.008).contains(took)), "{operation}: {took:?}");
    }
}

#[tokio::test]
async fn a_request_that_fails_is_counted_by_the_kind_of_its_error_and_so_is_the_end_of_the_outage()
{
    let scene = Scene::new().await;
    let guard = must(scene.client.mutex(&scene.name).ttl(TTL).acquire().await);
    scene.network.cut(TTL);
    scene.subject.pass(TTL / 2).await;
    let recorded = scene.recorded();
    let failed = recorded.number("leasehold_store_errors_total{kind=timeout}");
    assert!(failed >= 1.0);
    assert_eq!(recorded.number("leasehold_reconnects_total"), 0.0);
    scene.network.heal();
    scene.subject.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.recorded().number("leasehold_reconnects_total"), 1.0);
    scene.subject.pass(TTL).await;
    assert_eq!(scene.recorded().number("leasehold_reconnects_total"), 1.0, "told once");
    must(guard.release().await);
}
