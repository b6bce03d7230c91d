//! All that every store must do, as far as these locks can: on one server with the documented
//! rights and no more, with the counter of a fenced lock, in a cluster and behind sentinels.

use leasehold::store::Redis;
use leasehold_testkit::{
    Cluster, LeastPrivilege, RedisServer, Replicated, SentinelFleet, Subject, conformance, must,
    options_of,
};

async fn make(layout: &str) -> Subject {
    let rights = format!("{} {}", Redis::REDISSON_RIGHTS, Redis::OPERATOR_RIGHTS);
    let server = must(RedisServer::options().user(&format!("both on >secret {rights}")).start());
    let url = format!("{}&layout={layout}", server.patient_url_as("both", "secret"));
    let store = must(Redis::open(options_of(&url)).await);
    Subject::real(store, LeastPrivilege(server))
}

mod one {
    use super::*;

    conformance!(together make("redisson"));
}

mod fenced {
    use super::*;

    conformance!(together make("redisson-fenced"));
}

mod replicated {
    use super::*;

    async fn make() -> Subject {
        let rights = [Redis::REDISSON_RIGHTS, Redis::OPERATOR_RIGHTS, Redis::REPLICAS_RIGHTS];
        let options = RedisServer::options().user(&format!("both on >secret {}", rights.join(" ")));
        let servers = must(Replicated::start_with(options, &[100]));
        let url = servers[0].url_as("both", "secret");
        // The timeouts are so long that a healthy replica always answers in time on a busy machine.
        let url = format!("{url}?layout=redisson&replicas=1&timeout=20s");
        Subject::real(must(Redis::open(options_of(&url)).await), LeastPrivilege(servers))
    }

    conformance!(together make());
}

mod cluster {
    use super::*;

    async fn make() -> Subject {
        let cluster = must(Cluster::start(0));
        let url = format!("{}?layout=redisson&timeout=10s", cluster.url());
        let store = must(Redis::open(options_of(&url)).await);
        Subject::real(store, cluster)
    }

    conformance!(together make());
}

mod sentinel {
    use super::*;

    async fn make() -> Subject {
        let fleet = must(SentinelFleet::start());
        let url = format!("{}?layout=redisson&timeout=10s", fleet.url());
        let store = must(Redis::open(options_of(&url)).await);
        Subject::real(store, fleet)
    }

    conformance!(together make());
}
