//! The last holder of a name.

use leasehold_core::LastHolder;

use super::*;

async fn last(store: &File, of: &str) -> Option<LastHolder> {
    match on(store, of, Action::Inspect { limit: 100 }).await {
        Reply::Status(status) => status.last_holder,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_last_holder_is_remembered_for_as_long_as_it_asked_for() {
    let place = Place::new();
    let store = place.open();
    let hour = Duration::from_secs(3600);
    let Action::Acquire(request) = acquire(ALICE, 1, true) else { panic!("it acquires") };
    on(&store, "a", Action::Acquire(request.with_remember(48 * hour))).await;
    on(&store, "a", release(ALICE, 1)).await;
    on(&store, "b", acquire(BOB, 1, true)).await;
    on(&store, "b", release(BOB, 1)).await;
    place.clock.advance(47 * hour);
    // Each call tidies up a few records.
    while place.record(&name("b")).is_some() {
        on(&store, "c", acquire(BOB, 2, true)).await;
        on(&store, "c", release(BOB, 2)).await;
        tokio::task::yield_now().await;
    }
    let last = last(&store, "a").await.unwrap();
    assert_eq!((last.id.client, last.ended_ago), (ALICE, 47 * hour));
}

#[tokio::test]
async fn the_last_holder_goes_with_a_restart_of_the_machine() {
    let place = Place::new();
    let hour = Duration::from_secs(3600);
    let store = place.open();
    let Action::Acquire(request) = acquire(ALICE, 1, true) else { panic!("it acquires") };
    on(&store, "a", Action::Acquire(request.with_remember(hour))).await;
    on(&store, "a", release(ALICE, 1)).await;
    drop(store);
    let store = File::with_clock(place.path(), place.clock.clone(), "second".to_owned()).unwrap();
    assert_eq!(last(&store, "a").await, None);
}
