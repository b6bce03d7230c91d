//! A server that has forgotten something is noticed: a crash or a promotion removes the `boot` row.

use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, Guard, Result};
use leasehold_testkit::must;

use crate::Database;
use crate::faults::NAME;

/// Checks that nothing new is granted, and that the reason is reported.
pub(crate) fn assert_quarantined(answer: Result<Option<Guard>>) {
    let Err(Error::Store(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Quarantined, "{error}");
    assert!(error.to_string().contains("leasehold end-quarantine"), "{error}");
}

/// Asks until the server answers.
pub(crate) async fn tried(client: &Client, name: &str) -> Result<Option<Guard>> {
    loop {
        match client.mutex(name).try_acquire().await {
            Err(Error::Store(error)) if error.kind() != StoreErrorKind::Quarantined => {}
            Err(Error::Indeterminate { .. }) => {}
            answered => return answered,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_flush_is_in_quarantine_after_a_crash() {
    let Some(mut server) = crate::server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    client.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
    server.kill9().unwrap();
    server.restart().unwrap();
    assert_quarantined(tried(&client, NAME).await);
}

#[tokio::test]
async fn p13_data_out_of_a_backup_begin_a_quarantine_here_and_on_another_server() {
    let Some(database) = Database::new() else { return };
    let Some(elsewhere) = crate::server() else { return };
    let client = database.client().await;
    let _held = client.mutex(NAME).acquire().await.unwrap();
    client.mutex("another").acquire().await.unwrap().release().await.unwrap();
    let sql = must(database.server.dump(&database.schema));
    assert!(sql.contains("COPY"), "{sql}");
    for server in [&elsewhere, &*database.server] {
        must(server.query(&format!("DROP SCHEMA IF EXISTS {} CASCADE", database.schema)));
        must(server.run(&sql));
        let url = format!("{}&schema={}", server.url(), database.schema);
        let other = Client::connect(&url).await.unwrap();
        assert_quarantined(tried(&other, "another").await);
    }
    assert_quarantined(tried(&client, "another").await); // it was connected before
}

#[tokio::test]
async fn a_new_schema_and_a_longer_lease_begin_none() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    for hours in [1, 2] {
        let ttl = Duration::from_secs(hours * 3600);
        let mutex = client.mutex(NAME).ttl(ttl);
        mutex.acquire().await.unwrap().release().await.unwrap();
        let longest = "SELECT value FROM @.number WHERE name = 'longest'";
        assert_eq!(database.ask(longest), ttl.as_micros().to_string());
    }
}
