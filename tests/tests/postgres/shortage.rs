//! Shortages of a server: disk, sessions, time. Held locks are renewed and released all the same.

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error};
use leasehold_testkit::{Postgres, must};

use crate::faults::{NAME, held, is_taken, session};
use crate::{Database, installed, refused};

#[tokio::test]
async fn p10_on_a_full_disk_nothing_new_begins_and_what_is_held_is_renewed_and_let_go() {
    let Some(server) = must(Postgres::start_with_small_disk("1m")) else {
        println!("left out: PostgreSQL is not installed, or mounting a disk is not allowed here");
        return;
    };
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    must(server.query("ALTER TABLE leasehold.lease SET TABLESPACE small"));
    let guard = held(&client).await;
    let mut guards = Vec::new();
    let full = loop {
        let name = format!("name/{}", guards.len());
        match client.mutex(name).acquire().await {
            Ok(guard) => guards.push(guard),
            full => break refused(full),
        }
    };
    assert_eq!(full.kind(), StoreErrorKind::Full, "{full}");
    assert!(full.to_string().contains("No space left on device"), "{full}");
    for _ in 0..3 {
        guard.renew().await.unwrap();
        assert!(is_taken(&other).await);
    }
    guard.release().await.unwrap();
    assert!(other.admin().inspect(NAME).await.unwrap().holders.is_empty());
    must(server.query("ALTER TABLE leasehold.lease SET TABLESPACE pg_default"));
    held(&other).await.release().await.unwrap();
}

#[tokio::test]
async fn p7_a_client_that_stops_in_the_middle_of_a_step_is_put_out_whatever_timeouts_a_role_has() {
    let Some(database) = Database::new() else { return };
    let role = format!("hurried_{}", database.schema);
    database.ask(&format!("CREATE ROLE {role} LOGIN SUPERUSER"));
    let url = format!("{}&schema={}", database.server.url_as(&role), database.schema);
    for timeout in ["", "statement_timeout", "transaction_timeout"] {
        // Only PostgreSQL 17 and newer have the third setting.
        let there = format!("SELECT count(*) FROM pg_settings WHERE name = '{timeout}'");
        if database.ask(&there) != "0" {
            database.ask(&format!("ALTER ROLE {role} SET {timeout} = '500ms'"));
        }
        let client = Client::connect(&url).await.unwrap();
        client.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
        // The requests of the store, and then silence: the server ends it after a second.
        let stopped = database.session().await;
        let begun = format!(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1s'; \
             SELECT * FROM {}.open_4('{NAME}')",
            database.schema
        );
        stopped.batch_execute(&begun).await.unwrap();
        let guard = client.mutex(NAME).acquire().await.unwrap();
        assert!(stopped.batch_execute("SELECT").await.is_err(), "it was waited for");
        guard.release().await.unwrap();
        database.ask(&format!("ALTER ROLE {role} RESET ALL"));
    }
}

#[tokio::test]
async fn p10_where_no_session_is_left_a_newcomer_is_told_and_what_is_held_is_renewed() {
    let settings =
        ["fsync=off", "max_connections=6", "superuser_reserved_connections=0", "max_wal_senders=0"];
    let started = must(Postgres::start_with(&settings));
    let Some(server) = installed("PostgreSQL", started) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let guard = held(&client).await;
    let mut sessions = Vec::new();
    while let Ok(more) = session(&server).await {
        sessions.push(more);
    }
    let error = refused(Client::connect(format!("{}&connections=1", server.url())).await);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("raise max_connections"), "{error}");
    guard.renew().await.unwrap();
    sessions.clear();
    guard.release().await.unwrap();
    assert!(!is_taken(&client).await);
}

#[tokio::test]
async fn p13_a_holder_whose_rows_were_deleted_loses_its_lease_and_a_dropped_schema_is_told() {
    let Some(database) = Database::new() else { return };
    let (client, other) = (database.client().await, database.client().await);
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let token = guard.token();
    database.ask("TRUNCATE @.lease");
    assert!(matches!(guard.renew().await, Err(Error::Lost { .. })));
    let next = other.mutex(NAME).acquire().await.unwrap();
    assert!(next.token() > token);
    database.ask("SET client_min_messages = error; DROP SCHEMA @ CASCADE");
    let error = refused(client.mutex("another").try_acquire().await);
    assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(&database.schema), "{error}");
    assert!(next.renew().await.is_err());
    let anew = database.client().await;
    anew.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
}
