//! Several observers of one client, and groups of names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::Client;
use leasehold::event::{Event, MetricsObserver, TracingObserver};
use leasehold_testkit::harness::until_so;
use leasehold_testkit::{Faults, must};

use crate::scene::{Metrics, Scene};

#[tokio::test]
async fn every_observer_is_told_all_although_one_before_it_panics() {
    let metrics = Metrics::record();
    let calls = Arc::new(AtomicU32::new(0));
    let (before, after) = (Arc::clone(&calls), Arc::clone(&calls));
    let panics = move |_: &Event<'_>| {
        before.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose");
    };
    let counts = move |_: &Event<'_>| {
        after.fetch_add(1000, Ordering::Relaxed);
    };
    let builder = Client::builder().url("memory:").observer(panics).observer(counts);
    let builder = builder.observer(TracingObserver::new()).observer(MetricsObserver::new());
    let client = must(builder.build().await);
    let guard = must(client.mutex("a").acquire().await);
    // An observer that panics is told so once, and panics again. The keeper tells them more.
    until_so("each is told as much as the other", || {
        let calls = calls.load(Ordering::Relaxed);
        calls / 1000 > 1 && calls % 1000 == calls / 1000 + 1
    });
    let granted = "leasehold_acquires_total{mode=exclusive,outcome=granted}";
    assert_eq!(metrics.recorded().number(granted), 1.0);
    drop(guard);
}

#[tokio::test]
async fn names_are_no_label_and_groups_of_names_are_one_of_which_there_are_not_too_many() {
    let scene = Scene::new().await;
    drop(must(scene.client.mutex("invoices/42").acquire().await));
    assert!(!scene.recorded().keys().any(|key| key.contains("invoices")));

    let observer = MetricsObserver::new();
    let observer = observer.group_by(|name| name.as_str().split('/').next().unwrap_or_default());
    let scene = Scene::with(observer, Faults::default(), 1).await;
    for number in 0..3 {
        let guard = must(scene.client.mutex(format!("invoices/{number}")).acquire().await);
        must(guard.release().await);
    }
    let granted = |group: &str| {
        let labels = format!("mode=exclusive,outcome=granted,group={group}");
        scene.recorded().number(&format!("leasehold_acquires_total{{{labels}}}"))
    };
    assert_eq!(granted("invoices"), 3.0);
    for number in 0..200 {
        let guard = must(scene.client.mutex(format!("{number}/x")).acquire().await);
        must(guard.release().await);
    }
    assert_eq!((granted("7"), granted("150"), granted("other")), (1.0, 0.0, 101.0));
    let recorded = scene.recorded();
    let held = recorded.keys().filter(|key| key.starts_with("leasehold_held")).collect::<Vec<_>>();
    assert_eq!(held.len(), 101);
    assert!(held.into_iter().all(|key| recorded.number(key) == 0.0));
}
