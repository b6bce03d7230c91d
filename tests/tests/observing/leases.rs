//! Leases: how many are held, for how long, how they are renewed and how they are lost.

use std::time::Duration;

use leasehold::LossReason;
use leasehold_testkit::must;

use crate::scene::{Scene, TTL};

#[tokio::test]
async fn a_release_counts_with_the_time_from_the_grant_to_it() {
    let scene = Scene::new().await;
    let guard = must(scene.client.semaphore(&scene.name, 4).permit().acquire().await);
    assert_eq!(scene.recorded().number("leasehold_held{mode=permits}"), 1.0);
    scene.subject.pass(Duration::from_secs(5)).await;
    must(guard.release().await);
    let recorded = scene.recorded();
    assert_eq!(recorded.of("leasehold_hold_seconds{mode=permits}"), [5.0]);
    assert_eq!(recorded.number("leasehold_held{mode=permits}"), 0.0);
}

#[tokio::test]
async fn a_lease_that_was_handed_out_is_held_no_more() {
    let scene = Scene::new().await;
    let guard = must(scene.client.mutex(&scene.name).acquire().await);
    let _lease = must(guard.into_lease());
    assert_eq!(scene.recorded().number("leasehold_held{mode=exclusive}"), 0.0);
}

#[tokio::test]
async fn every_reason_for_a_loss_that_a_holder_meets_is_counted() {
    let scene = Scene::new().await;
    let lock = scene.client.mutex(&scene.name).ttl(TTL);
    let losses = |reason: LossReason| {
        let metric = format!("leasehold_losses_total{{reason={}}}", reason.as_str());
        scene.recorded().number(&metric)
    };

    let guard = must(lock.acquire().await);
    assert!(must(scene.other.admin().revoke(guard.name(), guard.token()).await));
    assert_eq!(scene.subject.drive(guard.lost()).await, Some(LossReason::Revoked));
    assert_eq!(losses(LossReason::Revoked), 1.0);

    let short = lock.clone().max_hold(Duration::from_secs(1));
    let guard = must(scene.subject.drive(short.acquire()).await);
    assert_eq!(scene.subject.drive(guard.lost()).await, Some(LossReason::HeldTooLong));
    drop(guard);
    assert_eq!(losses(LossReason::HeldTooLong), 1.0);

    let guard = must(scene.subject.drive(lock.acquire()).await);
    scene.network.cut(10 * TTL);
    assert_eq!(scene.subject.drive(guard.lost()).await, Some(LossReason::Expired));
    drop(guard);
    scene.network.heal();
    assert_eq!(losses(LossReason::Expired), 1.0);

    let guard = must(scene.subject.drive(lock.acquire()).await);
    must(scene.subject.drive(scene.client.clone().close()).await);
    assert_eq!(guard.loss(), Some(LossReason::Closed));
    assert_eq!(losses(LossReason::Closed), 1.0);
    assert_eq!(scene.recorded().number("leasehold_held{mode=exclusive}"), 0.0);
}

#[tokio::test]
async fn the_first_renewal_that_fails_is_overdue_and_those_after_it_are_no_news() {
    let scene = Scene::new().await;
    let guard = must(scene.client.mutex(&scene.name).ttl(TTL).acquire().await);
    let renewals = || {
        let recorded = scene.recorded();
        ["renewed", "overdue"].map(|outcome| {
            recorded.number(&format!("leasehold_renewals_total{{outcome={outcome}}}"))
        })
    };
    scene.subject.pass(TTL).await;
    let [renewed, overdue] = renewals();
    assert!(renewed >= 2.0 && overdue == 0.0, "{renewed} {overdue}");
    scene.network.cut(TTL / 2);
    scene.subject.pass(TTL / 2).await;
    assert_eq!(renewals()[1], 1.0);
    scene.network.heal();
    scene.subject.pass(TTL / 2).await;
    must(guard.ensure_held());
    assert!(renewals()[0] > renewed);
}

#[tokio::test]
async fn a_grant_that_its_waiter_does_not_fetch_is_a_warning_and_not_held() {
    for is_passed_on in [false, true] {
        let scene = Scene::new().await;
        let lock = scene.client.mutex(&scene.name).ttl(TTL);
        let theirs = scene.other.mutex(&scene.name);
        let taken = must(if is_passed_on { lock.acquire().await } else { theirs.acquire().await });
        let mut waiter = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut waiter).is_pending());
        // A lease is passed on within its slice.
        scene.subject.pass(Duration::from_secs(if is_passed_on { 0 } else { 1 })).await;
        assert!(futures_util::poll!(&mut waiter).is_pending());
        must(taken.release().await);
        scene.subject.pass(TTL).await;
        let _taken = must(scene.subject.drive(theirs.acquire()).await);
        assert!(futures_util::poll!(&mut waiter).is_pending());
        let recorded = scene.recorded();
        assert_eq!(recorded.number("leasehold_warnings_total"), 1.0);
        assert_eq!(recorded.number("leasehold_held{mode=exclusive}"), 0.0);
    }
}

#[tokio::test]
async fn a_keeper_that_is_woken_late_is_a_warning() {
    let scene = Scene::new().await;
    let guard = must(scene.client.mutex(&scene.name).ttl(TTL).acquire().await);
    scene.subject.pass(Duration::from_millis(1)).await;
    // The machine was suspended.
    scene.clock.advance(Duration::from_secs(3600));
    scene.subject.pass(Duration::from_millis(1)).await;
    assert_eq!(scene.recorded().number("leasehold_warnings_total"), 1.0);
    drop(guard);
}
