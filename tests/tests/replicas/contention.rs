//! Locks that change hands while a replica hangs for about the time of its acknowledgement. So a
//! waiter gets "not replicated" for some of its requests and "yours" for others.

use leasehold::LockName;
use leasehold_testkit::{Contenders, RedisServer, Replicated, fresh_number, must};

use super::{TTL, connect};

/// Three, so that behind a waiter that is handed a lock, there is another waiter.
const CLIENTS: usize = 3;

const NAMES: usize = 8;

/// How often each of the locks changes hands while the replica hangs.
const TIMES: u64 = 6;

/// Lets three clients contend for locks on a primary with two replicas, some of which hang again
/// and again.
async fn contend(hanging: usize, options: &str) {
    let servers = must(Replicated::start(2));
    let url = format!("{}?{options}", servers[0].url());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&url).await);
    }
    // Nothing was granted before, whatever the guard assumes about a new server.
    must(clients[0].admin().end_quarantine().await);
    let name = |number| must(LockName::new(format!("{number}/{:032x}", fresh_number())));
    let names: Vec<_> = (0..NAMES).map(name).collect();
    let contenders = Contenders::start(&clients, &names, TTL);
    let hanging: Vec<&RedisServer> = servers.servers().iter().rev().take(hanging).collect();
    contenders.change_hands_while_hanging(&hanging, TIMES).await;
    assert!(contenders.stop().await >= NAMES * TIMES as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_with_all_replicas_a_lock_has_one_holder_while_one_hangs_and_comes_back() {
    contend(1, "replicas=all").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_with_fewer_than_all_a_lock_has_one_holder_while_all_hang_and_come_back() {
    contend(2, "replicas=1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_replicas_that_hang_are_no_matter_where_nothing_waits_for_them() {
    contend(2, "replicas=none").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_with_a_quarantine_a_lock_has_one_holder_while_replicas_hang_and_come_back() {
    contend(2, "quarantine=on").await;
    contend(1, "quarantine=on&replicas=all").await;
}
