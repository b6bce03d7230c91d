//! Locks that change hands while the replicas of their primaries hang, where grants wait for them.

use leasehold::Client;
use leasehold_testkit::{Cluster, Contenders, RedisServer, must};

use super::LONG;

/// Three, so that behind a waiter that is handed a lock, there is another waiter.
const CLIENTS: usize = 3;

/// Primaries, and how many of the locks live at each.
const PRIMARIES: usize = 3;
const NAMES_EACH: usize = 3;

/// How often each of the locks changes hands while the replicas hang.
const TIMES: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_replicas_that_hang_and_come_back_let_nobody_in_beside_a_holder() {
    let cluster = must(Cluster::start(1));
    let url = format!("{}?replicas=all", cluster.url());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(must(Client::connect(&url).await));
    }
    let nodes = (0..PRIMARIES).flat_map(|node| [node; NAMES_EACH]);
    let names: Vec<_> = nodes.map(|node| cluster.fresh_name(node).0).collect();
    let contenders = Contenders::start(&clients, &names, LONG);
    let replicas: Vec<&RedisServer> =
        (PRIMARIES..cluster.size()).map(|node| cluster.node(node)).collect();
    contenders.change_hands_while_hanging(&replicas, TIMES).await;
    assert!(contenders.stop().await >= names.len() * TIMES as usize);
}
