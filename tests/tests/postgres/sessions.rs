//! Sessions: how many there are, and what happens to those that end, and to clients that stop.

use std::time::Duration;

use leasehold::Client;
use leasehold::election::Observed;
use leasehold::store::Store as _;
use leasehold::store::protocol::ClientId;
use leasehold_testkit::fresh_number;
use leasehold_testkit::harness::{acquiring, queued};

use crate::Database;
use crate::fence::Transaction;

#[tokio::test]
async fn who_do_not_wait_and_have_equal_options_share_one_session_that_does_not_listen() {
    let Some(server) = crate::server() else { return };
    let mut stores = Vec::new();
    for (options, sessions) in [("", "1"), ("", "1"), ("&connections=2", "2")] {
        let store = crate::open(&format!("{}{options}", server.url())).await;
        let _inbox = store.inbox(ClientId(1)).await.unwrap();
        store.execute(crate::bundles::on(0, 0, false)).await.unwrap();
        stores.push(store);
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'";
        assert_eq!(server.query(count).unwrap().trim(), sessions, "{options}");
    }
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
async fn through_a_pooler_nothing_is_heard_and_that_is_said_once() {
    let Some((_server, bouncer)) = crate::pooled(4) else { return };
    let store = crate::open(&bouncer.url()).await;
    let name = leasehold::LockName::new("a").unwrap();
    assert!(store.subscribe(&name).await.unwrap().is_none());
    let warnings = store.warnings();
    let said = warnings.iter().filter(|it| it.contains("listen=HOST")).count();
    assert_eq!(said, 1, "{warnings:?}");
    let client = Client::builder().store(store).build().await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    let other = Client::connect(&bouncer.url()).await.unwrap();
    let waiting = acquiring(other.mutex("a"));
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

#[tokio::test]
async fn frequent_requests_need_no_general_step_although_a_client_of_their_store_is_closed() {
    let Some(database) = Database::new() else { return };
    let clients = [database.client().await, database.client().await, database.client().await];
    let mut guard = clients[0].mutex("a").acquire().await.unwrap();
    for (turn, next) in [1, 2, 0, 1, 0, 1, 0].into_iter().enumerate() {
        let waiting = acquiring(clients[next].mutex("a"));
        queued(&clients[0], "a", 1).await;
        if turn == 3 {
            // All listen now, which begins in a general step.
            clients[2].clone().close().await.unwrap();
            database.ask("ALTER FUNCTION @.open_4 RENAME TO gone");
        }
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
    }
    guard.release().await.unwrap();
    // Nor is it asked in each of them what the server has forgotten.
    let others = Transaction::begin(&database, "READ COMMITTED").await;
    others.run("LOCK TABLE @.boot").await;
    for _ in 0..70 {
        let guard = clients[0].mutex("a").acquire().await.unwrap();
        guard.renew().await.unwrap();
        guard.release().await.unwrap();
    }
    others.run("COMMIT").await;
    assert_ne!(database.ask("SELECT epoch FROM @.lease"), "0");
    let _held = clients[0].mutex("a").label("nightly").acquire().await.unwrap();
    database.until("SELECT hold LIKE '% nightly' FROM @.lease").await;
}

#[tokio::test]
async fn forged_messages_make_no_leader_and_hide_none() {
    let Some(server) = crate::server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let mut observation = client.election("boss").observe().await.unwrap();
    while !matches!(observation.next().await.unwrap(), Observed::Nobody) {}
    let forging = crate::faults::session(&server).await.unwrap();
    let channels = "SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN lh\\_%'";
    let listens = server.query(channels).unwrap();
    let channel = listens.split("LISTEN ").find(|it| it.starts_with("lh_n_")).unwrap();
    let channel = channel.split(';').next().unwrap().to_owned();
    let forged = tokio::spawn(async move {
        for number in 0.. {
            let sql = format!(
                "SELECT pg_notify('{channel}', E'boss\nleads 8999999999999999999 {number} evil')"
            );
            forging.batch_execute(&sql).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for value in ["one", "two"] {
        let leadership = client.election("boss").campaign(value).await.unwrap();
        let Observed::Leader(leader) = observation.next().await.unwrap() else { panic!() };
        assert_eq!(leader.value, value);
        leadership.resign().await.unwrap();
        assert!(matches!(observation.next().await.unwrap(), Observed::Nobody));
    }
    forged.abort();
}
