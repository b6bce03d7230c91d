//! A database of the release before.

use super::*;
use crate::store::file::migrate;

/// As that release has written it: Alice holds, Bob and another wait, a tombstone.
const RECORD: &str = "\
    03ffffff7fffffff7f00000000004020464847060080c3c90100000000ffffffffffff1f0080c3c90100000000\
    02000000000000008058840c000000000000000001000000ce110a000000000000000000000000000100000000\
    000000ffffff7f000000000040204648470600000000000000000080c3c9010000000080c3c901000000000000\
    000000000000650000000000000004000000686572650100000001000000030000006f6c640200000001000000\
    000000000b0b00000000000000000000000000000700000000000000ffffff7fffffff7f80c3c9010000000000\
    000000000000006b00000000000000000000000200000000000000020000000000000001a40c00000000000000\
    0000000000000300000000000000ffffff7fffffff7f80c3c90100000000000000000000000067000000000000\
    00000000000200000000000000020000000b0b0000000000000000000000000000000000000000000001000000\
    01a40c000000000000000000000000000000000000000000010000000100000005000000000000000000000000\
    00000009000000000000000087930300000000";

/// Makes the database one of the release before.
fn write_as_before(place: &Place) {
    let connection = Connection::open(place.path()).unwrap();
    let sql = format!(
        "DROP TABLE lock_row;
         INSERT INTO lock VALUES ('a', 'first', 210000000, x'{RECORD}');
         INSERT INTO lock VALUES ('damaged', 'first', 210000000, x'0300');
         UPDATE number SET value = 1234567 WHERE name = 'highest_token_us';"
    );
    connection.execute_batch(&sql).unwrap();
    connection.pragma_update(None, "user_version", migrate::LAYOUT).unwrap();
}

#[tokio::test]
async fn a_database_of_the_release_before_keeps_its_holders_waiters_and_tokens() {
    let place = Place::new();
    drop(place.open());
    write_as_before(&place);
    let store = place.open();
    let record = place.record(&name("a")).unwrap();
    assert!(record.is_sound());
    let ids = |ids: Vec<HolderId>| ids.iter().map(|id| id.client).collect::<Vec<_>>();
    let holders = ids(record.holds.iter().map(|hold| hold.id).collect());
    let waiters = ids(record.queue.values().map(|waiting| waiting.id).collect());
    assert_eq!((holders, waiters), (vec![ALICE], vec![BOB, ClientId(0xca401)]));
    assert_eq!((record.tombstones.len(), record.last_sequence), (1, 2));
    let label = record.holds[0].info.label.as_deref();
    assert_eq!((label, record.holds[0].deadline_us), (Some("old"), 30_000_000));

    place.clock.step_wall(-3_600_000_000);
    assert_eq!(on(&store, "a", release(ALICE, 1)).await, Reply::Released);
    let poll = Action::Poll { id: HolderId { client: BOB, attempt: 7 }, ttl: TTL };
    let last = FencingToken::from_micros(record.last_token_us).get();
    assert!(token(on(&store, "a", poll).await) > last, "a token of the past is given out again");

    let operation = Operation::On { name: name("damaged"), action: release(ALICE, 1) };
    let error = store.execute(operation).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    let connection = Connection::open(place.path()).unwrap();
    let sql = "SELECT value FROM number WHERE name = 'highest_token_us'";
    let highest = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(highest.unwrap(), 1_234_567);
}

#[tokio::test]
async fn a_database_of_the_release_before_keeps_past_holders_from_now_on() {
    let place = Place::new();
    drop(place.open());
    write_as_before(&place);
    let store = place.open_with_history(2);
    assert_eq!(on(&store, "a", release(ALICE, 1)).await, Reply::Released);
    let Reply::Status(status) = on(&store, "a", Action::Inspect { limit: 9 }).await else {
        panic!()
    };
    let labels: Vec<_> = status.past_holders.iter().map(|past| past.info.label.clone()).collect();
    assert_eq!(labels, [Some("old".to_owned())]);
}

#[test]
fn a_database_of_the_release_before_that_is_in_use_is_left_alone() {
    let place = Place::new();
    let user = place.open();
    write_as_before(&place);
    let Error::Store(error) = place.refusal() else { panic!() };
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
    assert!(error.to_string().contains("is in use"), "{error}");
    drop(user);
    drop(place.open());
    assert!(place.record(&name("a")).is_some());
}
