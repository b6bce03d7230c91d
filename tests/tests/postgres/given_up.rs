//! Requests that are given up: their sessions count until the server has ended them.

use std::fs;
use std::time::{Duration, Instant};

use leasehold::{Client, Guard, Lock};
use leasehold_testkit::harness::{soon, until};
use leasehold_testkit::{PgBouncer, Postgres, must};
use tokio::task::JoinSet;

use crate::faults::session;
use crate::installed;

/// What is given up soon.
const OPTIONS: &str = "connections=2&timeout=300ms";

/// More than ten times the timeout.
const LONG: Duration = Duration::from_secs(4);

/// A server on which something waits, a client, and a session that sees the server.
struct Scene {
    server: Postgres,
    client: Client,
    sees: tokio_postgres::Client,
}

impl Scene {
    async fn new() -> Option<Self> {
        let server = crate::server()?;
        let sees = session(&server).await.unwrap();
        let url = server.url().replace("timeout=20s", OPTIONS);
        let client = Client::connect(&url).await.unwrap();
        Some(Self { server, client, sees })
    }

    /// The number of sessions and of logins that wait, but for the session that sees the server. A
    /// process that only says whether there is TLS has no such title.
    fn sessions(&self) -> usize {
        let parent = self.server.process();
        let children = must(fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")));
        let titles = children.split_whitespace().map(|child| {
            // A process may have ended meanwhile.
            fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default()
        });
        titles.filter(|title| title.contains("[local]")).count() - 1
    }

    async fn held(&self, name: &str) -> Guard {
        self.client.mutex(name).ttl(Duration::from_secs(120)).acquire().await.unwrap()
    }

    /// Asks again and again from twelve tasks, and returns the most sessions of the client.
    async fn most_sessions_while_asking(&self) -> usize {
        let end = Instant::now() + LONG;
        let mut asking = JoinSet::new();
        for number in 0..12 {
            let lock: Lock = self.client.mutex(format!("asked/{number}"));
            asking.spawn(async move {
                let mut refused = 0;
                while Instant::now() < end {
                    refused += u32::from(lock.try_acquire().await.is_err());
                }
                refused
            });
        }
        let mut most = 0;
        while Instant::now() < end {
            most = most.max(self.sessions());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let refused: u32 = asking.join_all().await.into_iter().sum();
        assert!(refused > 12, "the requests are given up");
        most
    }

    /// Waits until the client is served again.
    async fn is_well(&self) {
        let lock = self.client.mutex("after");
        until("it is served", async || lock.try_acquire().await.is_ok()).await;
    }

    /// Waits until the server has ended whatever waits for a lock.
    async fn nothing_waits(&self) {
        let waits =
            "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock'";
        let count = async || self.sees.query_one(waits, &[]).await.unwrap().get::<_, i64>(0);
        until("nothing waits", async || count().await == 0).await;
    }

    async fn run(&self, sql: &str) {
        self.sees.batch_execute(sql).await.unwrap();
    }
}

#[tokio::test]
async fn while_a_table_is_locked_a_client_has_no_more_sessions_than_connections() {
    let Some(scene) = Scene::new().await else { return };
    for table in ["lease", "boot"] {
        scene.run(&format!("BEGIN; LOCK TABLE leasehold.{table}")).await;
        assert!(scene.most_sessions_while_asking().await <= 2, "{table}");
        scene.run("COMMIT").await;
        scene.is_well().await;
    }
}

#[tokio::test]
async fn while_a_row_is_locked_a_request_is_ended_by_the_server_and_its_session_is_used_again() {
    let Some(scene) = Scene::new().await else { return };
    let guard = scene.held("a").await;
    scene.run("BEGIN; SELECT FROM leasehold.lease FOR UPDATE").await;
    for _ in 0..4 {
        assert!(guard.renew().await.is_err());
    }
    scene.nothing_waits().await;
    // Both places are free, although the row is locked.
    assert!(scene.client.admin().inspect("a").await.is_ok());
    scene.run("COMMIT").await;
    guard.renew().await.unwrap();
}

#[tokio::test]
async fn while_a_row_is_locked_the_other_leases_of_its_process_are_renewed() {
    let Some(scene) = Scene::new().await else { return };
    let ttl = Duration::from_secs(9);
    let acquire = async |name| scene.client.mutex(name).ttl(ttl).acquire().await.unwrap();
    let (stuck, well) = (acquire("stuck").await, acquire("well").await);
    scene.run("BEGIN; SELECT FROM leasehold.lease WHERE name = 'stuck' FOR UPDATE").await;
    soon(stuck.lost()).await;
    assert!(well.is_held(), "its renewals were not counted");
}

#[tokio::test]
async fn while_a_standby_is_gone_commits_wait_and_keep_their_places() {
    let Some(scene) = Scene::new().await else { return };
    let guard = scene.held("a").await;
    for names in ["nobody", ""] {
        crate::set(&scene.server, "synchronous_standby_names", names).await;
        if !names.is_empty() {
            assert!(scene.most_sessions_while_asking().await <= 2);
        }
    }
    scene.is_well().await;
    guard.renew().await.unwrap();
}

#[tokio::test]
async fn while_logins_wait_in_the_server_no_more_of_them_are_begun() {
    let Some(scene) = Scene::new().await else { return };
    // The client's sessions end, and the first request of a new one waits for the second lock.
    for catalog in ["pg_authid", "pg_proc"] {
        scene.run(&format!("BEGIN; LOCK TABLE pg_catalog.{catalog}")).await;
        let end = "SELECT pg_terminate_backend(a.pid) FROM pg_stat_get_activity(NULL) a \
             WHERE a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'";
        scene.run(end).await;
        // One request session each for the places, and the listening one.
        assert!(scene.most_sessions_while_asking().await <= 3, "{catalog}");
        scene.run("COMMIT").await;
        scene.is_well().await;
    }
}

#[tokio::test]
async fn a_listening_session_that_waits_in_the_server_is_the_only_one() {
    let Some(scene) = Scene::new().await else { return };
    let name = leasehold::LockName::new("a").unwrap();
    let store = crate::open(&scene.server.url().replace("timeout=20s", OPTIONS)).await;
    scene.run("BEGIN; LOCK TABLE pg_catalog.pg_proc").await;
    let before = scene.sessions();
    let end = Instant::now() + 3 * LONG;
    let mut most = 0;
    while Instant::now() < end {
        let listening = leasehold::store::Store::subscribe(&store, &name);
        let _ = tokio::time::timeout(Duration::from_millis(500), listening).await;
        most = most.max(scene.sessions());
    }
    assert_eq!(most, before + 1);
    scene.run("COMMIT").await;
    let mut news = loop {
        if let Ok(Some(news)) = leasehold::store::Store::subscribe(&store, &name).await {
            break news;
        }
    };
    leasehold::store::Store::publish(&store, &name, "one").await.unwrap();
    // Before that, it may say that something was missed.
    while news.next().await.as_deref() != Some("one") {}
}

#[tokio::test]
async fn behind_a_pooler_that_pauses_or_waits_a_client_has_no_more_sessions_than_connections() {
    let Some(mut scene) = Scene::new().await else { return };
    let bouncer = installed("PgBouncer", must(PgBouncer::start(&scene.server, 4)));
    let Some(bouncer) = bouncer else { return };
    scene.client = Client::connect(&bouncer.url().replace("timeout=20s", OPTIONS)).await.unwrap();
    let guard = scene.held("a").await;
    scene.run("BEGIN; LOCK TABLE leasehold.lease").await;
    scene.most_sessions_while_asking().await;
    assert!(bouncer.clients().unwrap() <= 2);
    scene.nothing_waits().await;
    scene.run("COMMIT").await;
    scene.is_well().await;
    bouncer.command("PAUSE").unwrap();
    scene.most_sessions_while_asking().await;
    assert!(bouncer.clients().unwrap() <= 2);
    bouncer.command("RESUME").unwrap();
    scene.is_well().await;
    guard.renew().await.unwrap();
}
