//! Transactions of other crates.

use std::thread;

use futures_util::FutureExt as _;

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
async fn work_that_panics_here_or_in_another_thread_is_undone_and_the_locks_go_on() {
    fn mistake(transaction: &FileTransaction<'_>) -> Result<(), StoreError> {
        add(transaction, 1)?;
        panic!("a mistake of somebody else's")
    }
    let place = Place::new();
    let store = place.open();
    // At first the store makes room and tidies, in its thread.
    let here = thread::current().id();
    while store.transact(|_| Ok(thread::current().id())).await.unwrap() != here {}
    store.transact(mistake).await.unwrap_err();
    let write_lock = place.write_lock();
    let guard = write_lock.lock(true).unwrap();
    let mut queued = Box::pin(store.transact(mistake));
    assert!((&mut queued).now_or_never().is_none(), "it waits for its turn");
    drop(guard);
    queued.await.unwrap_err();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    assert!(values(&store).await.is_empty());
}
