//! Transactions of other crates.

use super::*;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS guest (value INTEGER NOT NULL)";

/// Adds a row.
fn add(transaction: &FileTransaction<'_>, value: i64) -> Result<(), StoreError> {
    transaction.sql(|transaction| {
        transaction.execute_batch(TABLE)?;
        transaction.execute("INSERT INTO guest VALUES (?1)", [value]).map(drop)
    })
}

/// All rows.
async fn values(store: &File) -> Vec<i64> {
    let all = store.transact(|transaction| {
        transaction.sql(|transaction| {
            transaction.execute_batch(TABLE)?;
            let mut rows = transaction.prepare("SELECT value FROM guest")?;
            rows.query_map([], |row| row.get(0))?.collect()
        })
    });
    all.await.unwrap()
}

#[tokio::test]
async fn what_fails_in_the_middle_leaves_nothing() {
    let place = Place::new();
    let store = place.open();
    let failed = store.transact(|transaction| {
        add(transaction, 1)?;
        Err::<(), _>(StoreError::new(StoreErrorKind::Mismatch, "no"))
    });
    assert_eq!(failed.await.unwrap_err().kind(), StoreErrorKind::Mismatch);
    store.transact(|transaction| add(transaction, 2)).await.unwrap();
    assert_eq!(values(&store).await, [2]);
}

#[tokio::test]
async fn work_that_panics_is_undone_and_the_locks_go_on() {
    let place = Place::new();
    let store = place.open();
    let mistake = store.transact(|transaction| {
        add(transaction, 1)?;
        panic!("a mistake of somebody else's") as Result<(), StoreError>
    });
    mistake.await.unwrap_err();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    assert!(values(&store).await.is_empty());
}
