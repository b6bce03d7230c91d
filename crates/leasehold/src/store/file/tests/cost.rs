//! The cost of using a store for a moment.

use super::*;

/// Uses a store as a command does: opens it, holds a lock for a moment, and leaves.
async fn visit(place: &Place) {
    let store = place.open();
    for action in [acquire(ALICE, 1, false), release(ALICE, 1)] {
        store.execute(Operation::On { name: name("a"), action }).await.unwrap();
    }
}

#[tokio::test]
async fn a_log_that_is_left_again_and_again_stays_short() {
    let place = Place::new();
    for _ in 0..100 {
        visit(&place).await;
    }
    let connection = Connection::open(place.path()).unwrap();
    let copy = "PRAGMA wal_checkpoint(PASSIVE)";
    let pages: u32 = connection.query_row(copy, [], |row| row.get(1)).unwrap();
    assert!(pages < 150, "{pages} pages are read by the next process");
}
