//! The connections of clients, as the server counts them.

use std::time::Duration;

use futures_util::future::{join, join_all};
use leasehold::event::Event;
use leasehold::store::Redis;
use leasehold::{Client, Error};
use leasehold_core::FakeClock;
use leasehold_testkit::harness::{apart, connect, soon, until};
use leasehold_testkit::{Cluster, RedisServer, must, three_nodes};
use redis::ConnectionLike as _;
use tokio::sync::mpsc::unbounded_channel;

/// Waits until this number of connections to the server is for messages.
async fn listening(server: &RedisServer, count: usize) {
    let list = || must(server.command::<String>("CLIENT LIST TYPE pubsub"));
    until(&format!("{count} listen"), async || list().lines().count() == count).await;
}

#[tokio::test]
async fn a_client_listens_once_it_queues_or_others_see_its_lease_and_not_for_free_pairs() {
    let (server, clock) = (must(RedisServer::start()), FakeClock::new());
    let client = Client::builder().url(server.url()).clock(clock.clone()).build().await;
    let (lock, queue) = (must(client).mutex("a"), connect(server.url()).await.mutex("a"));
    for _ in 0..50 {
        must(must(lock.acquire().await).release().await);
    }
    assert_eq!(must(server.command_stats("subscribe")).0, 0, "for free pairs");
    let guard = must(lock.acquire().await);
    let waiting = tokio::spawn(async move { queue.acquire().await });
    listening(&server, 1).await;
    clock.advance(Duration::from_millis(100));
    listening(&server, 2).await;
    must(guard.release().await);
    drop(must(must(waiting.await)));
}

/// Holds a lease for longer than its ttl. The servers refuse new clients, by the given command,
/// from just before or just after the grant.
async fn outlives(url: &str, servers: &[&RedisServer], refusal: &str, is_before: bool) {
    let (sender, mut renewed) = unbounded_channel();
    let observe = move |event: &Event<'_>| {
        let _ = matches!(event, Event::Renewed { .. }).then(|| sender.send(()));
    };
    let client = must(Client::builder().url(url).observer(observe).build().await);
    let mut operators: Vec<_> = servers.iter().map(|server| must(server.connection())).collect();
    let refuse = |operator: &mut redis::Connection| {
        let command = redis::Cmd::new().arg(refusal.split(' ').collect::<Vec<_>>()).to_owned();
        must(operator.req_command(&command));
    };
    operators.iter_mut().filter(|_| is_before).for_each(refuse);
    let guard = must(client.mutex("a").ttl(Duration::from_secs(2)).acquire().await);
    operators.iter_mut().filter(|_| !is_before).for_each(refuse);
    for _ in 0..5 {
        soon(renewed.recv()).await;
    }
    must(guard.ensure_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_lives_on_the_connection_that_granted_it_while_servers_take_no_more_clients() {
    const FULL: &str = "CONFIG SET maxclients 1";
    let user = format!("holder on >1 {}", Redis::HOLDER_RIGHTS);
    let refusals = [FULL, "ACL SETUSER holder resetpass >2", "ACL SETUSER holder off"];
    let alone = refusals.into_iter().flat_map(|refusal| [true, false].map(|at| (refusal, at)));
    let alone = join_all(alone.map(async |(refusal, is_before)| {
        let server = must(RedisServer::options().user(&user).start());
        outlives(&server.url_as("holder", "1"), &[&server], refusal, is_before).await;
    }));
    let several = async {
        let (nodes, url) = three_nodes("quarantine=off");
        outlives(&url, &nodes.iter().collect::<Vec<_>>(), FULL, false).await;
        let cluster = must(Cluster::start(0));
        let nodes = [0, 1, 2].map(|index| cluster.node(index));
        outlives(&cluster.url(), &nodes, FULL, false).await;
    };
    join(alone, several).await;
}

#[tokio::test]
async fn a_thousand_idle_clients_of_a_process_and_a_url_use_at_most_four_connections() {
    let (server, mut clients) = (must(RedisServer::start()), Vec::new());
    for _ in 0..1_000 {
        let client = connect(server.url()).await;
        must(must(client.mutex("a").acquire().await).release().await);
        clients.push(client);
    }
    let count = || must(server.command::<String>("CLIENT LIST")).lines().count() - 1;
    let shared = count();
    assert!((2..=4).contains(&shared), "{shared}");
    let _other = connect(apart(server.url())).await;
    assert_eq!(count(), shared + 1, "with other options");
}

#[tokio::test]
async fn a_right_that_is_missing_in_the_middle_of_an_acquire_costs_no_name_without_a_word() {
    let user = format!("holder on >1 {}", Redis::HOLDER_RIGHTS);
    let server = must(RedisServer::options().user(&user).start());
    let lock = connect(server.url_as("holder", "1")).await.mutex("a");
    must(server.command::<()>("ACL SETUSER holder -multi"));
    must(must(lock.acquire().await).release().await);
    assert_eq!(must(server.command::<u32>("EXISTS lh:{a}")), 0);
    must(server.command::<()>("ACL SETUSER holder +multi -script|load"));
    must(server.command::<()>("SCRIPT FLUSH"));
    let Err(Error::Store(error)) = lock.acquire().await else { panic!("it is not known") };
    assert!(error.may_have_executed(), "{error:?}");
}
