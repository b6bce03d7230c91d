//! Which node is asked, and what is refused.

use leasehold::Client;
use leasehold_testkit::harness::refusal;
use leasehold_testkit::{Cluster, RedisServer, must};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::{LONG, client, refusals, three_alone, url, with_least_rights};

const NAMES: usize = 300;

/// Names of characters that could lead a reader of hash tags astray.
fn odd_names() -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let odd = "[{}%a:/é語]{1,8}";
    (0..NAMES).map(|_| must(odd.new_tree(&mut runner)).current()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e10_every_legal_name_is_asked_for_at_the_node_that_serves_it() {
    let cluster = three_alone();
    let client = client(&cluster).await;
    for name in odd_names() {
        let guard = client.mutex(&name).ttl(LONG).try_acquire().await.unwrap();
        guard.expect("nobody else asks").release().await.unwrap();
    }
    for node in 0..3 {
        for code in ["ASK", "CROSSSLOT", "MOVED", "TRYAGAIN"] {
            assert_eq!(refusals(&cluster, node, code), 0, "node {node} said {code}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e10_a_hash_tag_puts_locks_beside_the_data_they_protect() {
    let cluster = three_alone();
    let client = client(&cluster).await;
    let slot = cluster.slot_of("{user:7}").unwrap();
    let owner = cluster.owner(slot).unwrap();
    let mut held = Vec::new();
    for name in ["{user:7}", "{user:7}/cart", "orders/{user:7}/1"] {
        held.push(client.mutex(name).ttl(LONG).acquire().await.unwrap());
    }
    let there = || cluster.keys_in(owner, slot);
    assert_eq!(there(), 4, "the counter of the slot is there, too");
    for guard in held {
        guard.release().await.unwrap();
    }
    assert_eq!(there(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_a_replica_leads_to_the_primaries_and_runs_no_script_itself() {
    let cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let ports = [3, 4].map(|node| format!("127.0.0.1:{}", cluster.node(node).port()));
    let seeds = format!("redis+cluster://both:secret@{}", ports.join(","));
    let client = Client::connect(seeds).await.unwrap();
    for node in 0..3 {
        let (name, _) = cluster.fresh_name(node);
        let guard = client.mutex(&name).ttl(LONG).acquire().await.unwrap();
        guard.renew().await.unwrap();
        assert_eq!(client.admin().inspect(&name).await.unwrap().holders.len(), 1);
        guard.release().await.unwrap();
        assert!(must(cluster.node(node).command_stats("evalsha")).0 > 0);
    }
    for node in 3..6 {
        assert_eq!(must(cluster.node(node).command_stats("evalsha")).0, 0, "node {node}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_can_be_connected_to_while_one_of_its_nodes_is_down() {
    let mut cluster = three_alone();
    cluster.kill(0).unwrap();
    let client = Client::connect(url(&cluster)).await.unwrap();
    let (name, _) = cluster.fresh_name(2);
    client.mutex(&name).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_and_a_lone_server_are_not_mistaken_for_each_other() {
    let (cluster, single) = (three_alone(), must(RedisServer::start()));
    let node = cluster.node(0).url();
    let why = refusal(&node).await;
    assert!(why.contains("begin the store URL with redis+cluster://"), "{why}");
    let why = refusal(&single.url().replace("redis://", "redis+cluster://")).await;
    assert!(why.contains("begin the store URL with redis://"), "{why}");
}
