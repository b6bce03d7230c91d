//! Servers that crash, take over and are left behind, and a pooler that comes and goes. The letters
//! are those of GUARANTEES.md.

use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, Guard};
use leasehold_testkit::harness::until;
use leasehold_testkit::{Postgres, must};
use tokio_postgres::{Config, NoTls};

use crate::installed;

const NAME: &str = "invoices/42";

/// Longer than any server takes to recover.
const TTL: Duration = Duration::from_secs(120);

/// A server that writes to the disk what it says it has written.
fn server() -> Option<Postgres> {
    installed("PostgreSQL", must(Postgres::start_with(&["shared_buffers=16MB"])))
}

async fn held(client: &Client) -> Guard {
    client.mutex(NAME).ttl(TTL).acquire().await.unwrap()
}

/// Renews until the server is there again: the lease must be what it was.
async fn assert_still_held(guard: &Guard) {
    while let Err(error) = guard.renew().await {
        assert!(!matches!(error, Error::Lost { .. }), "{error}");
        assert!(guard.is_held(), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether another one gets the name, once the server answers.
async fn is_taken(client: &Client) -> bool {
    loop {
        match client.mutex(NAME).try_acquire().await {
            Ok(guard) => return guard.is_none(),
            Err(Error::Store(_) | Error::Indeterminate { .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// A session of an application.
async fn session(server: &Postgres) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let [(_, host), (_, user), (_, database), _] = server.environment();
    let text = |it: std::ffi::OsString| it.into_string().unwrap();
    let mut config = Config::new();
    config.host(text(host)).user(text(user)).dbname(text(database));
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// How `fence` ends for this guard on a server: the code with which it fails.
async fn fence(server: &Postgres, guard: &Guard) -> Result<(), String> {
    let token = i64::try_from(guard.token().get()).unwrap();
    let session = session(server).await.unwrap();
    let passed = session.execute(leasehold::fence::postgres::FENCE, &[&NAME, &token]).await;
    passed.map(drop).map_err(|error| error.code().unwrap().code().to_owned())
}

#[tokio::test]
async fn p1_a_server_that_crashes_and_recovers_has_every_lease_that_it_has_granted() {
    let Some(mut server) = server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    for crash in ["a session", "the first process", "all at once"] {
        // Granted in the moment before.
        let guard = held(&client).await;
        match crash {
            "a session" => server.kill_a_session().unwrap(),
            "the first process" => {
                server.kill9().unwrap();
                server.restart().unwrap();
            }
            _ => {
                server.stop_at_once().unwrap();
                server.restart().unwrap();
            }
        }
        assert!(is_taken(&other).await, "{crash}");
        assert_still_held(&guard).await;
        assert_eq!(fence(&server, &guard).await, Ok(()), "{crash}");
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn p1_no_update_is_lost_while_sessions_are_killed_and_the_server_recovers() {
    let Some(server) = server() else { return };
    must(server.query("CREATE TABLE value (value int); INSERT INTO value VALUES (0)"));
    let server = std::sync::Arc::new(server);
    let mut workers = Vec::new();
    for _ in 0..4 {
        let server = std::sync::Arc::clone(&server);
        workers.push(tokio::spawn(async move {
            let client = Client::connect(&server.url()).await.unwrap();
            let (mut written, mut unknown) = (0, 0);
            while written < 8 {
                let Ok(guard) = client.mutex(NAME).ttl(TTL).acquire().await else { continue };
                let token = guard.token().get();
                let sql = format!(
                    "BEGIN; SELECT leasehold.fence('{NAME}', {token}); \
                     UPDATE value SET value = (SELECT value FROM value) + 1"
                );
                if let Ok(session) = session(&server).await
                    && session.batch_execute(&sql).await.is_ok()
                {
                    match session.batch_execute("COMMIT").await {
                        Ok(()) => written += 1,
                        Err(_) => unknown += 1,
                    }
                }
                // The server may be away; then the keeper lets go of it, or the lease is lost.
                drop(guard.release().await);
            }
            (written, unknown)
        }));
    }
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        // It may be recovering from the last one.
        drop(server.kill_a_session());
    }
    let (mut written, mut unknown) = (0, 0);
    for worker in workers {
        let done = worker.await.unwrap();
        (written, unknown) = (written + done.0, unknown + done.1);
    }
    // It may still be recovering.
    until("it answers", async || server.query("SELECT value FROM value").is_ok()).await;
    let value: i32 = must(server.query("SELECT value FROM value")).trim().parse().unwrap();
    assert!((written..=written + unknown).contains(&value), "{value}: {written}, {unknown}");
}

#[tokio::test]
async fn p2_a_standby_that_lacks_the_last_grant_lets_another_in_with_a_greater_token() {
    let Some(mut primary) = server() else { return };
    let client = Client::connect(&primary.url()).await.unwrap();
    client.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
    must(primary.query("CREATE TABLE value (value int); INSERT INTO value VALUES (0)"));
    let standby = must(primary.standby());
    must(standby.query("ALTER SYSTEM SET primary_conninfo = ''"));
    must(standby.query("SELECT pg_reload_conf()"));
    while standby.query("SELECT count(*) FROM pg_stat_wal_receiver").unwrap().trim() != "0" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let both = primary.url_with(&standby);
    let holder = Client::connect(&both).await.unwrap();
    let forgotten = held(&holder).await;
    primary.kill9().unwrap();
    must(standby.query("SELECT pg_promote()"));
    let other = Client::connect(&both).await.unwrap();
    let next = other.mutex(NAME).ttl(TTL).acquire().await.unwrap();
    assert!(next.token() > forgotten.token(), "two hold, and tokens grow");
    assert_eq!(fence(&standby, &next).await, Ok(()));
    let refused = fence(&standby, &forgotten).await.unwrap_err();
    assert_eq!(refused, leasehold::fence::postgres::OVERTAKEN, "and only one of them writes");
    assert!(matches!(forgotten.renew().await, Err(Error::Lost { .. })));
}

#[tokio::test]
async fn p3_an_old_primary_whose_synchronous_standby_was_promoted_grants_nothing() {
    let Some(primary) = server() else { return };
    let client = Client::connect(&primary.url()).await.unwrap();
    let standby = must(primary.standby());
    must(primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'"));
    must(primary.query("SELECT pg_reload_conf()"));
    let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    while primary.query(synchronous).unwrap().trim() != "1" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let guard = held(&client).await;
    must(standby.query("SELECT pg_promote()"));
    let at_the_new = Client::connect(&standby.url()).await.unwrap();
    assert!(is_taken(&at_the_new).await, "it has what the old one has granted");
    let old = primary.url().replace("timeout=20s&", "timeout=1s&");
    let at_the_old = Client::connect(&old).await.unwrap();
    let refused = at_the_old.mutex("another").try_acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Store(_) | Error::Indeterminate { .. }), "{refused}");
    let free = at_the_new.mutex("another").try_acquire().await.unwrap();
    assert!(free.is_some(), "the new one grants it");
    drop(guard);
}

#[tokio::test]
async fn p6_a_pooler_that_pauses_reconnects_and_is_killed_costs_no_lease() {
    let Some((_server, mut bouncer)) = crate::pooled(4) else { return };
    let client = Client::connect(&bouncer.url()).await.unwrap();
    let other = Client::connect(&bouncer.url()).await.unwrap();
    let guard = held(&client).await;
    for command in ["PAUSE", "RECONNECT", "killed"] {
        match command {
            "killed" => bouncer.restart().unwrap(),
            command => drop(bouncer.command(command).unwrap()),
        }
        if command == "PAUSE" {
            let waits = other.clone();
            let waiting = tokio::spawn(async move { is_taken(&waits).await });
            bouncer.command("RESUME").unwrap();
            assert!(waiting.await.unwrap());
        }
        assert_still_held(&guard).await;
        assert!(is_taken(&other).await, "{command}");
    }
    guard.release().await.unwrap();
    assert!(!is_taken(&other).await);
}

#[tokio::test]
async fn p11_a_standby_is_passed_over_and_named_and_the_one_that_is_promoted_is_found() {
    let Some(mut primary) = server() else { return };
    let client = Client::connect(&primary.url()).await.unwrap();
    let guard = held(&client).await;
    let standby = must(primary.standby());
    let Error::Store(alone) = Client::connect(&standby.url()).await.unwrap_err() else { panic!() };
    assert_eq!(alone.kind(), StoreErrorKind::Unreachable);
    assert!(alone.to_string().contains("it is a standby"), "{alone}");
    // The standby is named first.
    let other = Client::connect(&standby.url_with(&primary)).await.unwrap();
    assert!(is_taken(&other).await);
    let position = must(primary.query("SELECT pg_current_wal_flush_lsn()"));
    let behind = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", position.trim());
    while standby.query(&behind).unwrap().trim() != "t" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    primary.kill9().unwrap();
    must(standby.query("SELECT pg_promote()"));
    assert!(is_taken(&other).await, "the one that was promoted has the lease");
    assert_eq!(fence(&standby, &guard).await, Ok(()));
}
