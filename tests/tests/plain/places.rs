//! The same on other topologies than one server: the conformance suite, and special cases.

use leasehold::Client;
use leasehold::store::Redis;
use leasehold_testkit::{Cluster, SentinelFleet, Subject, conformance, must, options_of};

/// The store on a place with this URL.
fn plain(url: &str) -> String {
    format!("{url}?layout=plain&prefix=&timeout=10s")
}

mod cluster {
    use super::*;

    async fn make() -> Subject {
        let cluster = must(Cluster::start(0));
        let store = must(Redis::open(options_of(&plain(&cluster.url()))).await);
        Subject::real(store, cluster)
    }

    conformance!(together make());
}

mod sentinel {
    use super::*;

    async fn make() -> Subject {
        let fleet = must(SentinelFleet::start());
        let store = must(Redis::open(options_of(&plain(&fleet.url()))).await);
        Subject::real(store, fleet)
    }

    conformance!(together make());
}

#[tokio::test]
async fn a_lock_that_others_hold_is_found_in_its_slot_and_after_a_failover() {
    let cluster = must(Cluster::start(0));
    let client = must(Client::connect(&plain(&cluster.url())).await);
    for name in ["a", "b", "{c}d", "e"] {
        let node = must(cluster.owner(must(cluster.slot_of(name))));
        must(cluster.node(node).command::<()>(&format!("SET {name} theirs NX PX 60000")));
        assert!(must(client.mutex(name).try_acquire().await).is_none(), "{name}");
        must(cluster.node(node).command::<()>(&format!("DEL {name}")));
        assert!(must(client.mutex(name).try_acquire().await).is_some(), "{name}");
    }
    let fleet = must(SentinelFleet::start());
    let client = must(Client::connect(&plain(&fleet.url())).await);
    let before = must(fleet.primary().ok_or("the sentinels agree"));
    let theirs = &fleet.servers().servers()[before];
    must(theirs.command::<()>("SET a theirs NX PX 600000"));
    must(fleet.servers().wait_in_sync());
    must(fleet.fail_over());
    assert!(must(client.mutex("a").try_acquire().await).is_none(), "the new primary knows it");
    let after = must(fleet.primary().ok_or("the sentinels agree"));
    must(fleet.servers().servers()[after].command::<()>("DEL a"));
    must(must(client.mutex("a").acquire().await).release().await);
}
