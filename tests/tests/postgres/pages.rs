//! The rows of names: which there are, which are removed, and which are refused.

use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::store::{Postgres as Store, PostgresOptions, PostgresRoles};
use leasehold::{Client, FencingToken};
use leasehold_testkit::harness::until;

use crate::fence::Transaction;
use crate::{Database, refused};

#[tokio::test]
async fn a_name_that_is_free_has_a_row_until_it_is_swept_and_begins_above_its_past() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let first = client.mutex("a").acquire().await.unwrap();
    // As if the clock had been ahead, and was then set back.
    let ahead = "UPDATE @.lease SET counter = counter + (1::bigint << 30) RETURNING counter";
    let mut highest: u64 = database.ask(ahead).parse().unwrap();
    first.release().await.unwrap();
    let rows = "SELECT count(*), sum((hold IS NULL AND record IS NULL)::int) FROM @.lease";
    for row in ["1|1", "0|"] {
        assert_eq!(database.ask(rows), row);
        let again = client.mutex("a").acquire().await.unwrap();
        assert!(again.token() > FencingToken::from_micros(highest), "{row}: {highest}");
        highest = again.token().micros();
        again.release().await.unwrap();
        database.ask("UPDATE @.lease SET free_from_us = 0; SELECT @.sweep_4()");
    }
}

#[tokio::test]
async fn what_a_dead_holder_has_left_is_swept() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let mut fenced = None;
    for name in ["swept", "held", "fenced"] {
        let guard = client.mutex(name).acquire().await.unwrap();
        if name == "fenced" {
            let session = Transaction::begin(&database, "READ COMMITTED").await;
            session.run(&format!("SELECT @.fence('fenced', {})", guard.token().get())).await;
            fenced = Some(session);
        }
        std::mem::forget(guard);
    }
    database.ask("UPDATE @.lease SET free_from_us = 1 WHERE name <> 'held'; SELECT @.sweep_4()");
    assert_eq!(database.ask("SELECT string_agg(name, ' ') FROM @.lease"), "held fenced");
    drop(fenced);
}

#[tokio::test]
async fn a_name_that_was_released_too_late_for_a_sweep_is_removed_by_the_next() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    client.mutex("late").acquire().await.unwrap().release().await.unwrap();
    // As if it were released five seconds before the first sweep.
    database.ask("UPDATE @.lease SET free_from_us = free_from_us + 15000000");
    let rows = || database.ask("SELECT count(*) FROM @.lease");
    until("the row is removed", async || rows() == "0").await;
}

#[tokio::test]
async fn what_is_only_asked_about_leaves_no_row_and_a_refusal_changes_none() {
    let Some(database) = Database::new() else { return };
    let (client, other) = (database.client().await, database.client().await);
    let _ = client.admin().inspect("a").await.unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM @.lease"), "0");
    // Once the client listens, it renews what it has.
    let lock = client.mutex("a").ttl(std::time::Duration::from_hours(1)).renewal(Renewal::Off);
    let _held = lock.acquire().await.unwrap();
    let row = "SELECT xmin, ctid FROM @.lease";
    let before = database.ask(row);
    assert!(other.mutex("a").try_acquire().await.unwrap().is_none());
    assert_eq!(database.ask(row), before);
}

#[tokio::test]
async fn a_damaged_record_is_told_and_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let _held = database.client().await.mutex("a").acquire().await.unwrap();
    let (bad, other) = (StoreErrorKind::Corrupt, StoreErrorKind::Version);
    for (set, kind) in [("hold = 'y'", bad), ("record = 'x'", bad), ("record = 99", other)] {
        database.ask(&format!("UPDATE @.lease SET {set}"));
        assert_eq!(refused(client.mutex("a").acquire().await).kind(), kind, "{set}");
    }
    assert_eq!(database.ask("SELECT record FROM @.lease"), "99");
    client.mutex("b").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_internal_error_of_the_server_in_a_renewal_ends_no_lease() {
    let Some(database) = Database::new() else { return };
    let guard = database.client().await.mutex("a").acquire().await.unwrap();
    let fails = "$$ BEGIN RAISE SQLSTATE 'XX001'; END $$";
    database.ask(&format!("CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS {fails}"));
    database.ask("CREATE TRIGGER f BEFORE UPDATE ON @.lease FOR EACH ROW EXECUTE FUNCTION @.f()");
    assert_eq!(refused(guard.renew().await).kind(), StoreErrorKind::Corrupt);
    guard.ensure_held().unwrap();
}

#[tokio::test]
async fn a_schema_of_another_release_is_refused_and_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    database.client().await.close().await.unwrap();
    for layout in ["3", "5"] {
        database.ask(&format!("UPDATE @.number SET value = {layout} WHERE name = 'layout'"));
        assert_eq!(refused(Client::connect(&database.url()).await).kind(), StoreErrorKind::Version);
        let options = PostgresOptions::from_url(&database.url()).unwrap();
        let error = refused(Store::install(options, &PostgresRoles::default()).await);
        assert!(error.to_string().contains(&format!("layout {layout}")), "{error}");
        assert_eq!(error.kind(), StoreErrorKind::Version);
        assert_eq!(database.ask("SELECT value FROM @.number WHERE name = 'layout'"), layout);
    }
    database.ask("DROP FUNCTION @.layout()");
    assert!(Client::connect(&database.url()).await.is_err(), "a part of it is missing");
    let of_sql = refused(Client::connect(&database.url().replace(&database.schema, "user")).await);
    assert!(of_sql.to_string().contains("choose another `schema=`"), "{of_sql}");
}

#[tokio::test]
async fn many_who_connect_at_once_make_one_schema() {
    let Some(database) = Database::new() else { return };
    futures_util::future::join_all((0..6).map(|_| database.client())).await;
    assert_eq!(database.ask("SELECT value FROM @.number WHERE name = 'layout'"), "4");
}
