//! The rows of names: which there are, which are removed, and which are refused.

use leasehold::Client;
use leasehold::error::StoreErrorKind;
use leasehold::{Error, FencingToken};

use crate::Database;

fn kind(refused: Error) -> StoreErrorKind {
    match refused {
        Error::Store(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_name_that_is_free_has_no_rows_and_begins_above_its_past() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let first = client.mutex("a").acquire().await.unwrap();
    // As if the clock had been ahead, and was then set back.
    let ahead = "UPDATE @.counter SET value = value + (1::bigint << 30) RETURNING value";
    let highest: u64 = database.ask(ahead).parse().unwrap();
    first.release().await.unwrap();
    let rows = "SELECT (SELECT count(*) FROM @.lock), (SELECT count(*) FROM @.token)";
    assert_eq!(database.ask(rows), "0|0");
    let again = client.mutex("a").acquire().await.unwrap();
    assert!(again.token() > FencingToken::from_micros(highest), "{highest}");
    again.release().await.unwrap();
}

#[tokio::test]
async fn what_a_dead_holder_has_left_is_swept() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    for mode in ["swept", "held"] {
        std::mem::forget(client.mutex(mode).acquire().await.unwrap());
    }
    database.ask("UPDATE @.lock SET kept_until_us = 1 WHERE name = 'swept'; SELECT @.sweep_2()");
    for table in ["lock", "token"] {
        assert_eq!(database.ask(&format!("SELECT name FROM @.{table}")), "held");
    }
}

#[tokio::test]
async fn what_is_only_asked_about_leaves_no_row_and_a_refusal_changes_none() {
    let Some(database) = Database::new() else { return };
    let (client, other) = (database.client().await, database.client().await);
    let _ = client.admin().inspect("a").await.unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM @.lock"), "0");
    let _held = client.mutex("a").acquire().await.unwrap();
    let row = "SELECT xmin, ctid FROM @.lock";
    let before = database.ask(row);
    assert!(other.mutex("a").try_acquire().await.unwrap().is_none());
    assert_eq!(database.ask(row), before);
}

#[tokio::test]
async fn a_damaged_record_is_told_and_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let _held = database.client().await.mutex("a").acquire().await.unwrap();
    database.ask("UPDATE @.lock SET record = 'x'");
    assert_eq!(kind(client.mutex("a").acquire().await.unwrap_err()), StoreErrorKind::Corrupt);
    database.ask("UPDATE @.lock SET record = '99'");
    assert_eq!(kind(client.mutex("a").acquire().await.unwrap_err()), StoreErrorKind::Version);
    assert_eq!(database.ask("SELECT record FROM @.lock"), "99");
    client.mutex("b").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_schema_of_a_later_release_is_refused_and_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    database.client().await.close().await.unwrap();
    database.ask("UPDATE @.number SET value = 3 WHERE name = 'layout'");
    let refused = Client::connect(&database.url()).await.unwrap_err();
    assert_eq!(kind(refused), StoreErrorKind::Version);
    assert_eq!(database.ask("SELECT value FROM @.number WHERE name = 'layout'"), "3");
}

#[tokio::test]
async fn many_who_connect_at_once_make_one_schema() {
    let Some(database) = Database::new() else { return };
    let clients = (0..6).map(|_| database.client());
    let clients = futures_util::future::join_all(clients).await;
    assert_eq!(clients.len(), 6);
    assert_eq!(database.ask("SELECT value FROM @.number WHERE name = 'layout'"), "2");
}
