//! Servers that push messages without end: the memory cost for a client, and the renewals of its
//! leases meanwhile.
#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::Client;
use leasehold::event::Event;
use leasehold_testkit::harness::{until, until_so};
use leasehold_testkit::outage::Usage;
use leasehold_testkit::worker::{self, Worker, listen, say};
use leasehold_testkit::{Proxy, RedisServer, SentinelFleet, must};
use tokio::runtime::Builder;

/// A lease that ends soon after its renewals stop. A busy machine, made busier by a flood, may stop
/// a process for ten seconds.
const TTL: Duration = Duration::from_secs(18);

/// Renewals during a flood, one each 6 s: the lease would have ended by the last of them.
const RENEWALS: u64 = 3;

/// How much memory a flood may cost. Unread messages are limited to 4 MB.
const MOST_MEMORY: u64 = 10_000_000;

/// How many bytes of a flood a client reads at least: kept, they would exceed the allowed cost.
const FLOOD: u64 = 3 * MOST_MEMORY;

#[test]
#[ignore = "a job of the tests, for a separate process"]
fn job() {
    let arguments = worker::arguments();
    let [url] = arguments.as_slice() else { panic!("{arguments:?}") };
    let runtime = must(Builder::new_multi_thread().worker_threads(1).enable_all().build());
    runtime.block_on(hold(url));
}

/// In a worker: holds a lease, and says when it has been renewed during a flood.
async fn hold(url: &str) {
    let renewals = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&renewals);
    let builder = Client::builder().observer(move |event: &Event<'_>| {
        if matches!(event, Event::Renewed { .. }) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let client = must(builder.url(url).build().await);
    let guard = must(client.mutex("flooded").ttl(TTL).acquire().await);
    say("held");
    listen();
    let before = renewals.load(Ordering::Relaxed);
    until("it is renewed", async || {
        must(guard.ensure_held());
        renewals.load(Ordering::Relaxed) - before >= RENEWALS
    })
    .await;
    say("renewed");
    listen();
    must(guard.release().await);
}

fn memory(worker: &Worker) -> u64 {
    must(Usage::of(worker.pid())).memory
}

/// Floods a client that holds a lease, through these proxies.
fn flood(url: &str, proxies: &[Proxy]) {
    // The message is about another service, for a listener that reads it.
    let payload = format!("other {} 6379 10.0.0.2 6380", "x".repeat(1000));
    let flooded = || proxies.iter().map(Proxy::flooded).sum::<u64>();
    let mut worker = Worker::start(&[url]);
    worker.expect("held");
    let before = memory(&worker);
    proxies.iter().for_each(|proxy| proxy.flood(&payload));
    until_so("the client is flooded", || flooded() > 0);
    worker.ask("flooded", "renewed");
    until_so("it has taken much", || flooded() > FLOOD);
    let grown = memory(&worker).saturating_sub(before);
    println!("{} MB were pushed, memory grew by {} kB", flooded() / 1_000_000, grown / 1000);
    assert!(grown < MOST_MEMORY, "memory grew by {grown} bytes");
    worker.tell("release");
    worker.finish();
}

#[test]
fn messages_without_end_cost_little_memory_and_no_lease() {
    let server = must(RedisServer::start());
    let proxy = must(Proxy::start(server.port()));
    flood(&format!("{}?timeout=20s", proxy.url()), &[proxy]);
}

#[test]
fn sentinels_that_announce_without_end_cost_little_memory_and_no_lease() {
    let fleet = must(SentinelFleet::start());
    let proxies: Vec<_> =
        fleet.sentinels().iter().map(|sentinel| must(Proxy::start(sentinel.port()))).collect();
    let hosts: Vec<_> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let url = format!(
        "redis+sentinel://{}/{}?timeout=20s&replicas=none",
        hosts.join(","),
        SentinelFleet::SERVICE
    );
    flood(&url, &proxies);
}
