//! Locks in a cluster: what every store must do, and what befalls only a cluster.
#![cfg(test)]

mod clocks;
mod conformance;
mod contention;
mod messages;
mod moves;
mod outages;
mod quarantine;
mod routing;
mod several;

use std::time::Duration;

use leasehold::Client;
use leasehold::store::Redis;
use leasehold_testkit::harness::{PATIENCE, apart, loss, queued, refusals, request, soon};
use leasehold_testkit::{Cluster, RedisOptions, RedisServer, assert_nothing_denied, must};

/// A ttl that does not end during a test.
const LONG: Duration = Duration::from_secs(60);

/// A ttl that a test may wait for.
const TTL: Duration = Duration::from_secs(2);

/// A cluster whose user `both` has the documented rights of a holder and of an operator.
fn with_least_rights() -> RedisOptions {
    let rights = [Redis::HOLDER_RIGHTS, Redis::CLUSTER_RIGHTS, Redis::OPERATOR_RIGHTS].join(" ");
    RedisServer::options().user(&format!("both on >secret {rights}"))
}

/// Three primaries without replicas. One of them may fail without hurting the others' slots.
fn three_alone() -> Cluster {
    let options = with_least_rights().line("cluster-require-full-coverage no");
    must(Cluster::start_with(&options, 0))
}

fn url(cluster: &Cluster) -> String {
    cluster.url_as("both", "secret")
}

async fn client(cluster: &Cluster) -> Client {
    must(Client::connect(apart(url(cluster))).await)
}
