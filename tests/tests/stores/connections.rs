//! The connections of clients, as the server counts them.

use std::time::Duration;

use leasehold::Client;
use leasehold_core::FakeClock;
use leasehold_testkit::harness::{connect, until};
use leasehold_testkit::{RedisServer, must};

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
