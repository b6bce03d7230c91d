//! The network between a client and the server, and a server that stops.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::fence::postgres::OVERTAKEN;
use leasehold::store::Store as _;
use leasehold::{Client, FencingToken, Lock, LossReason};
use leasehold_core::{Action, ClientId, HolderId, LockName, Operation};
use leasehold_testkit::harness::{request, soon, until};
use leasehold_testkit::{Postgres, Proxy, must};
use tokio::task::JoinHandle;

use crate::faults::{NAME, fence, held, is_taken, session};
use crate::installed;

/// A lease that ends during the test.
const SHORT: Duration = Duration::from_secs(2);

/// A server, a client behind a bad network, and a client that reaches the server in any case.
struct Scene {
    server: Postgres,
    proxy: Proxy,
    far: Client,
    near: Client,
}

impl Scene {
    async fn new() -> Option<Self> {
        let server = installed("PostgreSQL", must(Postgres::start_on_tcp(&[])))?;
        let proxy = must(Proxy::start_unread(server.port()));
        let far = must(Client::connect(&Postgres::url_through(&proxy)).await);
        let near = must(Client::connect(&server.url()).await);
        // The server has prepared the statements of the far client.
        must(held(&far).await.release().await);
        Some(Self { server, proxy, far, near })
    }

    /// The token with which the name is held, as the server knows it.
    async fn token(&self) -> Option<FencingToken> {
        let status = must(self.near.admin().inspect(NAME).await);
        status.holders.first().and_then(|holder| holder.token)
    }

    /// Begins some work of the far client that ends in a write, and keeps the answer to the write
    /// from the client.
    async fn unheard<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        // The name has a row, whose update waits for this lock.
        let stop = must(session(&self.server).await);
        must(stop.batch_execute("BEGIN; LOCK TABLE leasehold.lease IN SHARE MODE").await);
        let working = tokio::spawn(work);
        let writes = "SELECT count(*) FROM pg_stat_activity \
            WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE leasehold.lease%'";
        until("it writes", async || must(self.server.query(writes)).trim() == "1").await;
        self.proxy.mute(true);
        must(stop.batch_execute("COMMIT").await);
        working
    }

    /// Loses the answer that the proxy keeps from its client.
    fn lose_the_answer(&self) {
        self.proxy.cut();
        self.proxy.mute(false);
    }
}

#[tokio::test]
async fn p4_a_grant_whose_answer_is_lost_is_the_one_that_its_caller_gets() {
    let Some(scene) = Scene::new().await else { return };
    let far = scene.far.clone();
    let acquiring = scene.unheard(async move { held(&far).await }).await;
    until("it is granted", async || scene.token().await.is_some()).await;
    let granted = scene.token().await;
    scene.lose_the_answer();
    let guard = soon(acquiring).await.unwrap();
    assert_eq!(Some(guard.token()), granted);
    assert_eq!(fence(&scene.server, &guard).await, Ok(()));
    soon(guard.release()).await.unwrap();
    assert_eq!(scene.token().await, None);
}

#[tokio::test]
async fn p4_a_store_does_not_ask_again_by_itself_for_a_name_of_which_no_answer_came() {
    let Some(scene) = Scene::new().await else { return };
    let store = crate::open(&Postgres::url_through(&scene.proxy)).await;
    let take = request(HolderId { client: ClientId(1), attempt: 1 });
    let (name, action) = (LockName::new(NAME).unwrap(), Action::Take(take));
    let take = async move { store.execute(Operation::On { name, action }).await };
    let taking = scene.unheard(take).await;
    scene.proxy.cut();
    let unknown = soon(taking).await.unwrap().unwrap_err();
    assert!(unknown.may_have_executed(), "its caller must know of the copy: {unknown}");
}

#[tokio::test]
async fn p4_a_release_whose_answer_is_lost_touches_nobody_when_it_comes_again() {
    let Some(scene) = Scene::new().await else { return };
    let guard = held(&scene.far).await;
    let releasing = scene.unheard(guard.release()).await;
    let next = held(&scene.near).await;
    scene.lose_the_answer();
    soon(releasing).await.unwrap().unwrap();
    assert_eq!(scene.token().await, Some(next.token()));
    next.renew().await.unwrap();
}

#[tokio::test]
async fn p4_a_grant_whose_caller_has_gone_before_the_answer_is_given_back() {
    let Some(scene) = Scene::new().await else { return };
    let far = scene.far.clone();
    let acquiring = scene.unheard(async move { held(&far).await }).await;
    until("it is granted", async || scene.token().await.is_some()).await;
    acquiring.abort();
    scene.proxy.mute(false);
    until("it is free again", async || scene.token().await.is_none()).await;
}

#[tokio::test]
async fn p4_a_holder_that_is_cut_off_is_told_before_another_is_let_in() {
    let Some(scene) = Scene::new().await else { return };
    let guard = scene.far.mutex(NAME).ttl(SHORT).acquire().await.unwrap();
    scene.proxy.swallow(true);
    let next = soon(held(&scene.near)).await;
    assert!(!guard.is_held(), "two believe that they hold it");
    assert_eq!(guard.loss(), Some(LossReason::Expired));
    assert!(next.token() > guard.token());
    scene.proxy.swallow(false);
    assert_eq!(fence(&scene.server, &guard).await, Err(OVERTAKEN.to_owned()));
    assert_eq!(fence(&scene.server, &next).await, Ok(()));
}

#[tokio::test]
async fn p5_a_holder_is_told_while_the_server_stands_still_and_the_name_is_free_when_it_goes_on() {
    let Some(scene) = Scene::new().await else { return };
    let guard = scene.near.mutex(NAME).ttl(SHORT).acquire().await.unwrap();
    scene.server.stop().unwrap();
    soon(guard.lost()).await;
    scene.server.cont().unwrap();
    // A renewal that was on its way may prolong the lease once.
    until("it is free", async || !is_taken(&scene.near).await).await;
}

#[tokio::test]
async fn a_client_goes_on_with_the_next_server_if_the_first_one_is_or_falls_silent() {
    let Some(scene) = Scene::new().await else { return };
    let ports = [scene.proxy.port(), scene.server.port()];
    let url = url_of(ports, "timeout=2s");
    for from_the_beginning in [false, true] {
        scene.proxy.swallow(from_the_beginning);
        let client = must(soon(Client::connect(&url)).await);
        scene.proxy.swallow(true);
        must(soon(held(&client)).await.release().await);
    }
}

#[tokio::test]
async fn a_silent_second_server_costs_a_client_its_time_to_connect_and_no_more() {
    let Some(scene) = Scene::new().await else { return };
    scene.proxy.swallow(true);
    let nobody = must(TcpListener::bind("127.0.0.1:0"));
    let port = must(nobody.local_addr()).port();
    drop(nobody);
    let (url, begin) = (url_of([port, scene.proxy.port()], "timeout=1s"), Instant::now());
    let refused = soon(Client::connect(&url)).await.unwrap_err().to_string();
    assert!(refused.contains("opening a session took longer than 5s"), "{refused}");
    assert!(begin.elapsed() < Duration::from_secs(10), "two such times have passed");
}

#[tokio::test]
async fn a_server_that_lets_nobody_in_is_dialled_a_few_times_whatever_the_number_of_callers() {
    let Some(scene) = Scene::new().await else { return };
    let refuses = must(TcpListener::bind("127.0.0.1:0"));
    scene.proxy.lead_to(must(refuses.local_addr()).port());
    let dials = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&dials);
    std::thread::spawn(move || {
        for dialled in refuses.incoming() {
            drop(dialled);
            counts.fetch_add(1, Ordering::Relaxed);
        }
    });
    scene.proxy.cut();
    let begin = Instant::now();
    let locks: Vec<_> = (0..40).map(|number| scene.far.mutex(format!("a/{number}"))).collect();
    let asked = join_all(locks.iter().map(Lock::try_acquire)).await;
    assert!(asked.iter().all(Result::is_err));
    let (dials, seconds) = (dials.load(Ordering::Relaxed), begin.elapsed().as_secs());
    // Four a second, and those of the sessions that were cut.
    assert!((1..=8 + 5 * seconds).contains(&dials), "{dials} in {seconds} s");
}

fn url_of([first, second]: [u16; 2], options: &str) -> String {
    let hosts = format!("127.0.0.1:{first},127.0.0.1:{second}");
    format!("postgres://postgres@{hosts}/postgres?sslmode=disable&{options}")
}
