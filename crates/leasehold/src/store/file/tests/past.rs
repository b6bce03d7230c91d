//! Past holders, in a row beside the record.

use leasehold_core::{Ending, PastHolder};

use super::*;

async fn past(store: &File, of: &str) -> Vec<PastHolder> {
    match on(store, of, Action::Inspect { limit: 100 }).await {
        Reply::Status(status) => status.past_holders,
        other => panic!("{other:?}"),
    }
}

async fn endings(store: &File, of: &str) -> Vec<(ClientId, Ending)> {
    past(store, of).await.iter().map(|past| (past.id.client, past.ending)).collect()
}

fn rows(place: &Place) -> u32 {
    let connection = Connection::open(place.path()).unwrap();
    connection.query_row("SELECT count(*) FROM lock_row", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn without_a_history_nothing_is_written_and_what_others_have_written_stays_and_is_shown() {
    let place = Place::new();
    let (without, with) = (place.open(), place.open_with_history(2));
    on(&without, "a", acquire(ALICE, 1, true)).await;
    on(&without, "a", release(ALICE, 1)).await;
    assert_eq!(rows(&place), 0);
    on(&with, "a", acquire(BOB, 1, true)).await;
    on(&with, "a", release(BOB, 1)).await;
    on(&without, "a", acquire(ALICE, 2, true)).await;
    on(&without, "a", release(ALICE, 2)).await;
    let bob = [(BOB, Ending::Released)];
    assert_eq!(
        (endings(&with, "a").await, endings(&without, "a").await),
        (bob.to_vec(), bob.to_vec())
    );
    assert_eq!(past(&with, "a").await[0].info.label.as_deref(), Some("\"quoted\" ü"));
}

#[tokio::test]
async fn a_holder_whose_process_is_found_dead_is_told_as_that() {
    let place = Place::new();
    let (alices, bobs) = (place.open(), place.open_with_history(2));
    let inbox = alices.inbox(ALICE).await.unwrap();
    on(&alices, "a", acquire(ALICE, 1, true)).await;
    place.clock.advance(Duration::from_secs(7));
    drop((inbox, alices));
    let [past] = &past(&bobs, "a").await[..] else { panic!() };
    assert_eq!((past.id.client, past.ending), (ALICE, Ending::Died));
    assert_eq!(past.held_for, Duration::from_secs(7));
}

#[tokio::test]
async fn past_holders_go_with_their_record_and_with_a_restart_of_the_machine() {
    let place = Place::new();
    let store = place.open_with_history(2);
    for of in ["a", "b"] {
        on(&store, of, acquire(ALICE, 1, true)).await;
        on(&store, of, release(ALICE, 1)).await;
    }
    drop(store);
    let options = FileOptions::new(place.path()).history(2);
    let store = File::with_clock(options, place.clock.clone(), "second".to_owned()).unwrap();
    assert_eq!(endings(&store, "a").await, []);
    on(&store, "a", acquire(BOB, 1, true)).await;
    on(&store, "a", release(BOB, 1)).await;
    assert_eq!(endings(&store, "a").await, [(BOB, Ending::Released)]);
    place.clock.advance(2 * RULES.retention);
    for attempt in 1..=2 {
        // Tidied up with the one, and seen with the other.
        on(&store, "c", acquire(ALICE, attempt, true)).await;
        on(&store, "c", release(ALICE, attempt)).await;
    }
    assert_eq!(endings(&store, "a").await, []);
}

#[tokio::test]
async fn past_holders_are_kept_for_as_long_as_the_store_is_asked_to() {
    let place = Place::new();
    let hour = Duration::from_secs(3600);
    let options = FileOptions::new(place.path()).history(2).retention(hour);
    let store = File::with_clock(options, place.clock.clone(), "first".to_owned()).unwrap();
    on(&store, "a", acquire(ALICE, 1, true)).await;
    on(&store, "a", release(ALICE, 1)).await;
    let alice = [(ALICE, Ending::Released)];
    for of in ["b", "c", "d"] {
        place.clock.advance(hour / 4);
        // Tidied up with each.
        on(&store, of, acquire(BOB, 1, true)).await;
        on(&store, of, release(BOB, 1)).await;
        assert_eq!(endings(&store, "a").await, alice);
    }
    place.clock.advance(hour);
    while place.record(&name("a")).is_some() {
        on(&store, "e", Action::Inspect { limit: 1 }).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(endings(&store, "a").await, []);
}

#[tokio::test]
async fn damaged_past_holders_are_an_error_to_those_who_keep_some_and_nothing_to_others() {
    let place = Place::new();
    let (without, with) = (place.open(), place.open_with_history(2));
    on(&with, "a", acquire(ALICE, 1, true)).await;
    on(&with, "a", release(ALICE, 1)).await;
    let connection = Connection::open(place.path()).unwrap();
    connection.execute("UPDATE lock_row SET value = x'0100000001'", []).unwrap();
    on(&with, "a", acquire(ALICE, 2, true)).await;
    let operation = Operation::On { name: name("a"), action: release(ALICE, 2) };
    let error = with.execute(operation).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    assert_eq!(on(&without, "a", release(ALICE, 2)).await, Reply::Released);
}

#[tokio::test]
async fn more_past_holders_than_there_is_room_for_are_refused() {
    let place = Place::new();
    let Err(Error::Invalid(refused)) = File::open(FileOptions::new(place.path()).history(17))
    else {
        panic!()
    };
    assert!(refused.why.contains("`history` is \"17\": give how many"), "{refused}");
    assert!(!place.path().exists(), "before anything is made");
}
