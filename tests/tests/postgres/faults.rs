//! Servers that crash and recover, and a pooler that comes and goes. The letters are those of
//! GUARANTEES.md.

use std::time::Duration;

use leasehold::{Client, Error, Guard};
use leasehold_testkit::{Postgres, must};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Connection, NoTls, Socket};

use crate::installed;
use crate::quarantine::tried;

pub(crate) const NAME: &str = "invoices/42";

/// Longer than any server takes to recover.
pub(crate) const TTL: Duration = Duration::from_secs(120);

/// A server that really writes acknowledged data to the disk.
pub(crate) fn server() -> Option<Postgres> {
    installed("PostgreSQL", must(Postgres::start_with(&["shared_buffers=16MB"])))
}

pub(crate) async fn held(client: &Client) -> Guard {
    client.mutex(NAME).ttl(TTL).acquire().await.unwrap()
}

/// Renews until the server is back: the lease must be unchanged.
pub(crate) async fn assert_still_held(guard: &Guard) {
    while let Err(error) = guard.renew().await {
        assert!(!matches!(error, Error::Lost { .. }), "{error}");
        assert!(guard.is_held(), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether another client gets the name, once the server answers.
pub(crate) async fn is_taken(client: &Client) -> bool {
    must(tried(client, NAME).await).is_none()
}

type Opened<T> = Result<T, tokio_postgres::Error>;

/// A session of an application, and what drives it.
pub(crate) async fn connect(
    server: &Postgres,
) -> Opened<(tokio_postgres::Client, Connection<Socket, NoTlsStream>)> {
    // The rest are options of leasehold.
    let url = server.url();
    tokio_postgres::connect(url.split('?').next().unwrap(), NoTls).await
}

pub(crate) async fn session(server: &Postgres) -> Opened<tokio_postgres::Client> {
    let (client, connection) = connect(server).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The result of `fence` for this guard on a server: an error is the SQLSTATE code.
pub(crate) async fn fence(server: &Postgres, guard: &Guard) -> Result<(), String> {
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
        // The lease was granted in the moment before.
        let guard = held(&client).await;
        match crash {
            "a session" => server.kill_a_session().unwrap(),
            "the first process" => server.kill9().unwrap(),
            _ => server.stop_at_once().unwrap(),
        }
        if crash != "a session" {
            server.restart().unwrap();
        }
        assert!(is_taken(&other).await, "{crash}");
        assert_still_held(&guard).await;
        assert_eq!(fence(&server, &guard).await, Ok(()), "{crash}");
        guard.release().await.unwrap();
    }
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
            command => bouncer.command(command).unwrap(),
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
