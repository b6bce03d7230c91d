//! The same behind sentinels, and in a cluster.

use std::time::Duration;

use leasehold_testkit::{Cluster, RedisServer, SentinelFleet, must};

use super::{PATIENCE, SURE, TTL, connect, is_not_replicated, try_acquire};

#[tokio::test]
async fn a_primary_that_is_stopped_is_left_also_by_those_who_wait_for_replicas() {
    let (servers, sentinels) = (RedisServer::options(), RedisServer::options());
    let fleet = must(SentinelFleet::start_with(servers, &[100, 100], sentinels));
    // Requests travel on separate connections: the acknowledgements on each of them must count.
    let client = connect(&format!("{}?replicas=1", fleet.url())).await;
    let lock = client.mutex("a").ttl(TTL);
    must(must(lock.acquire_within(PATIENCE).await).release().await);
    must(fleet.servers()[0].stop());
    must(fleet.wait_for_another_primary(0));
    must(must(client.mutex("b").ttl(TTL).acquire_within(PATIENCE).await).release().await);
}

#[tokio::test]
async fn in_a_cluster_the_replicas_of_one_primary_concern_its_names_alone() {
    let cluster = must(Cluster::start(1));
    let client = connect(&format!("{}?{SURE}&replicas=all", cluster.url())).await;
    let follows_the_first = |node: &usize| {
        let port = format!("master_port:{}\r", cluster.node(0).port());
        cluster.node(*node).info("replication").is_ok_and(|info| info.contains(&port))
    };
    let replica = (0..cluster.size()).find(follows_the_first).unwrap();
    must(cluster.node(replica).stop());
    let (name, _) = cluster.fresh_name(0);
    let error = try_acquire(&client, name.as_str()).await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
    let (name, _) = cluster.fresh_name(1);
    let guard = must(client.mutex(name).ttl(TTL).acquire_within(PATIENCE).await);
    assert!(guard.validity() > Duration::ZERO);
}
