//! Sessions: how many there are, and what happens to those that end, and to clients that stop.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::Client;
use leasehold::store::Store as _;
use leasehold::store::protocol::ClientId;
use leasehold_testkit::{Postgres, fresh_number, must};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use crate::{Database, installed};

/// The sessions of leasehold that listen.
const LISTENERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN lh\\_%'";

#[tokio::test]
async fn who_does_not_wait_has_one_session_and_does_not_listen() {
    let Some(server) = crate::server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(client.mutex(format!("a/{number}")).acquire().await.unwrap());
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'";
    assert_eq!(server.query(count).unwrap().trim(), "1");
}

#[tokio::test]
async fn a_waiter_listens_and_is_woken_by_a_release() {
    let Some(server) = crate::server() else { return };
    let holder = Client::connect(&server.url()).await.unwrap();
    let waiter = Client::connect(&server.url()).await.unwrap();
    let guard = holder.mutex("a").acquire().await.unwrap();
    let waits = waiter.mutex("a");
    let waiting = tokio::spawn(async move { waits.acquire().await });
    while server.query(LISTENERS).unwrap().trim() != "1" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_listening_session_that_is_ended_is_opened_again_and_says_that_it_was_away() {
    let Some(server) = crate::server() else { return };
    let store = crate::open(&server.url()).await;
    let _inbox_of_nobody = store.inbox(ClientId(fresh_number())).await.unwrap();
    let name = leasehold::LockName::new("a").unwrap();
    let mut news = store.subscribe(&name).await.unwrap().unwrap();
    store.publish(&name, "one").await.unwrap();
    assert_eq!(news.next().await.as_deref(), Some("one"));
    for _ in 0..2 {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE query LIKE 'LISTEN lh\\_%'";
        server.query(end).unwrap();
        assert_eq!(news.next().await, None, "something may have been missed");
        store.publish(&name, "two").await.unwrap();
        assert_eq!(news.next().await.as_deref(), Some("two"));
    }
}

#[tokio::test]
async fn sessions_that_are_ended_cost_no_lease() {
    let Some(server) = crate::server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE application_name = 'leasehold'";
    for _ in 0..5 {
        server.query(end).unwrap();
        guard.renew().await.unwrap();
        assert!(client.admin().inspect("a").await.unwrap().holders.len() == 1);
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_sessions_is_dialled_a_few_times_however_many_callers_ask() {
    const CALLERS: usize = 100;
    let Some(mut server) = installed("PostgreSQL", must(Postgres::start())) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    server.kill9().unwrap();
    let [(_, folder), ..] = server.environment();
    let socket = Path::new(&folder).join(format!(".s.PGSQL.{}", server.port()));
    fs::remove_file(&socket).unwrap();
    let refusing = UnixListener::bind(&socket).unwrap();
    let mut asking = JoinSet::new();
    for number in 0..CALLERS {
        let lock = client.mutex(format!("a/{number}"));
        asking.spawn(async move { lock.try_acquire().await.unwrap_err() });
    }
    let mut dials = 0;
    loop {
        tokio::select! {
            dialled = refusing.accept() => {
                dialled.unwrap();
                dials += 1;
            }
            refused = asking.join_next() => match refused {
                Some(refused) => assert!(refused.unwrap().is_transient()),
                None => break,
            }
        }
    }
    assert!(dials < CALLERS, "{dials} dials");
}

#[tokio::test]
async fn a_server_that_refuses_listeners_is_dialled_a_few_times_however_many_wait() {
    const NAMES: usize = 100;
    let Some(server) = crate::server() else { return };
    let holder = Client::connect(&server.url()).await.unwrap();
    let mut held = Vec::new();
    for number in 0..NAMES {
        held.push(holder.mutex(format!("a/{number}")).acquire().await.unwrap());
    }
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = refusing.local_addr().unwrap().port();
    let dials = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dials);
    tokio::spawn(async move {
        loop {
            refusing.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let url = format!("{}&listen=127.0.0.1:{port}&sslmode=disable", server.url());
    let client = Client::connect(&url).await.unwrap();
    let mut waiting = JoinSet::new();
    for guard in &held {
        let lock = client.mutex(guard.name());
        waiting.spawn(async move { lock.acquire().await.unwrap() });
    }
    for guard in &held {
        while holder.admin().inspect(guard.name()).await.unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    }
    let dials = dials.load(Ordering::Relaxed);
    assert!(dials < NAMES, "{dials} dials");
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_of_a_step_is_put_out() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    // The requests of the store, and then silence.
    let stopped = database.session().await;
    let schema = &database.schema;
    let begun = format!(
        "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1s'; \
         SELECT * FROM {schema}.open_2(ARRAY['a'])"
    );
    stopped.batch_execute(&begun).await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    assert!(stopped.batch_execute("SELECT").await.is_err(), "the server has ended it");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn through_a_pooler_nothing_is_heard_and_that_is_said_once() {
    let Some((_server, bouncer)) = crate::pooled(4) else { return };
    let store = crate::open(&bouncer.url()).await;
    let name = leasehold::LockName::new("a").unwrap();
    for _ in 0..2 {
        assert!(store.subscribe(&name).await.unwrap().is_none());
    }
    let warnings = store.warnings();
    let said = warnings.iter().filter(|it| it.contains("listen=HOST")).count();
    assert_eq!(said, 1, "{warnings:?}");
    let client = Client::builder().store(store).build().await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    let other = Client::connect(&bouncer.url()).await.unwrap();
    let waits = other.mutex("a");
    let waiting = tokio::spawn(async move { waits.acquire().await });
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn behind_a_pooler_the_server_itself_is_listened_to_where_it_is_named() {
    let Some((server, bouncer)) = crate::pooled(4) else { return };
    let url = format!("{}&listen={}", bouncer.url(), crate::direct(&server));
    let store = crate::open(&url).await;
    let name = leasehold::LockName::new("a").unwrap();
    let mut news = store.subscribe(&name).await.unwrap().unwrap();
    store.publish(&name, "one").await.unwrap();
    assert_eq!(news.next().await.as_deref(), Some("one"));
    assert!(store.warnings().iter().all(|it| !it.contains("pooler")));
}
