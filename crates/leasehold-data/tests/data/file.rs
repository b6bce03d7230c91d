//! Data in the file of a lock store.
#![cfg(feature = "file")]

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error};
use leasehold_data::{Data, StockOutcome};
use rusqlite::Connection;
use tempfile::TempDir;

/// A directory, and the path and the URL of a store in it.
struct Place {
    _directory: TempDir,
    path: String,
    url: String,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = format!("{}/locks.db", directory.path().display());
        Self { _directory: directory, url: format!("file:{path}"), path }
    }

    async fn data(&self) -> Data {
        Data::connect(&self.url).await.unwrap()
    }

    fn database(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }
}

#[tokio::test]
async fn a_number_of_a_data_part_that_cannot_be_is_refused() {
    let place = Place::new();
    let data = place.data().await;
    let stock = data.stock("shop");
    assert!(stock.level("apple").await.is_ok());
    let database = place.database();
    for number in [-1, i64::MIN, i64::MAX] {
        let sql = "INSERT OR REPLACE INTO data_level VALUES ('shop', 'apple', ?1)";
        database.execute(sql, [number]).unwrap();
        let refused = stock.level("apple").await;
        let Err(Error::Store(error)) = refused else { panic!("{number}: {refused:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    }
}

#[tokio::test]
async fn what_the_tables_of_earlier_releases_hold_is_read() {
    let place = Place::new();
    place.data().await.stock("shop").level("apple").await.unwrap();
    let late = 1_u64 << 52; // µs since 1970, far from now
    let rows = format!(
        "INSERT INTO data_fence VALUES ('stock', 'shop', 'lock', 7);
         INSERT INTO data_sequence VALUES ('short', 41, NULL);
         INSERT INTO data_level VALUES ('shop', 'apple', 5);
         INSERT INTO data_order VALUES ('shop', 'o1', {late}, 'reserved', '2 apple\n', 'no. 1', 9);"
    );
    place.database().execute_batch(&rows).unwrap();
    let data = place.data().await;
    assert_eq!(data.numbers("short").short().next().await.unwrap().value(), 42);
    let stock = data.stock("shop");
    let confirmed = StockOutcome::Deducted { note: "no. 1".to_owned(), again: false };
    assert_eq!(stock.confirm("o1").await.unwrap(), confirmed);
    assert_eq!(stock.level("apple").await.unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn steps_and_locks_of_several_users_of_one_file_wait_for_each_other() {
    let place = Place::new();
    let data = place.data().await;
    data.stock("shop").restock("delivery", [("lamp", 400)]).await.unwrap();
    let mut users = Vec::new();
    for user in 0..4 {
        let (client, data) = (Client::connect(&place.url).await.unwrap(), place.data().await);
        users.push(tokio::spawn(async move {
            for order in 0..50 {
                let guard = client.mutex(format!("of {user}")).acquire().await.unwrap();
                let stock = data.stock("shop").guarded(&guard);
                let id = format!("order {user}/{order}");
                assert!(stock.deduct(id, [("lamp", 2)]).await.unwrap().is_taken());
                guard.release().await.unwrap();
            }
        }));
    }
    for user in users {
        user.await.unwrap();
    }
    assert_eq!(data.stock("shop").level("lamp").await.unwrap(), 0);
}
