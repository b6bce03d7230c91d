//! Damaged records and numbers are refused, each without an effect on others.

use leasehold_core::Refusal;

use super::*;

#[tokio::test]
async fn one_damaged_record_ends_no_lease_of_another_name_and_no_thread() {
    let place = Place::new();
    let store = place.open();
    for (attempt, of) in [(1, "a"), (2, "b"), (3, "c")] {
        token(on(&store, of, acquire(ALICE, attempt, true)).await);
    }
    let connection = Connection::open(place.path()).unwrap();
    let lease = |attempt, of| (name(of), Keep::new(request(ALICE, attempt), TTL));
    let leases = vec![lease(1, "a"), lease(2, "b"), lease(3, "c")];
    // First a record of another release, and then a record of this release that was cut.
    for version in [4, 1] {
        let read = "SELECT record FROM lock WHERE name = 'b'";
        let record: String = connection.query_row(read, [], |row| row.get(0)).unwrap();
        let record = format!("{version}{}", &record[1..20]);
        connection.execute("UPDATE lock SET record = ?1 WHERE name = 'b'", [record]).unwrap();
        let renew = Operation::Keep(leases.clone());
        let Reply::Many(renewed) = store.execute(renew).await.unwrap().reply else {
            panic!("not many")
        };
        let [Reply::Kept { .. }, Reply::Refused(refusal), Reply::Kept { .. }] = renewed[..] else {
            panic!("{version}: {renewed:?}")
        };
        let expected = match version {
            1 => (Refusal::Damaged, StoreErrorKind::Corrupt),
            found => (Refusal::Version { found }, StoreErrorKind::Version),
        };
        let error = failure(&store, "b", release(ALICE, 2)).await;
        assert_eq!((refusal, error.kind()), expected);
        assert!(!error.may_have_executed());
    }

    let list = Operation::List { prefix: String::new(), after: None, keys: 9 };
    let Reply::Page(page) = store.execute(list).await.unwrap().reply else { panic!("no page") };
    assert_eq!(page.names, [name("a"), name("b"), name("c")]);
    let error = failure(&store, "b", Action::Look { limit: 1 }).await;
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("\"b\"") && text.contains("delete its row"), "{text}");

    // Tidying continues after the damaged record.
    place.clock.advance(TTL + TIDY_INTERVAL);
    tidy_until(&store, || place.record(&name("c")).is_none()).await;
}

#[tokio::test]
async fn a_number_of_the_store_that_cannot_be_is_refused() {
    let place = Place::new();
    let store = place.open();
    let connection = Connection::open(place.path()).unwrap();
    let sql = "UPDATE number SET value = ?1 WHERE name = 'counter'";
    for number in [-1, i64::MIN, i64::MAX] {
        connection.execute(sql, [number]).unwrap();
        let error = failure(&store, "a", acquire(ALICE, 1, true)).await;
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{number}: {error}");
    }
    connection.execute(sql, [7]).unwrap();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
}
