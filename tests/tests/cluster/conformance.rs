//! A cluster does what every store must do, for a user who may do no more than the documentation
//! says.

use leasehold::store::Redis;
use leasehold_testkit::{Cluster, LeastPrivilege, RedisServer, Subject, conformance, must};

async fn make() -> Subject {
    let rights = [Redis::HOLDER_RIGHTS, Redis::CLUSTER_RIGHTS, Redis::OPERATOR_RIGHTS].join(" ");
    let options = RedisServer::options().user(&format!("both on >secret {rights}"));
    let cluster = must(Cluster::start_with(&options, 0));
    let store =
        must(Redis::connect(&format!("{}?timeout=20s", cluster.url_as("both", "secret"))).await);
    Subject::real(store, LeastPrivilege(cluster))
}

conformance!(together make());
