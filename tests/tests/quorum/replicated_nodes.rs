//! H15: a node that is a primary with a replica, which takes over without the last writes; and a
//! node whose address leads to a replica for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::store::connect;
use leasehold::{Client, Guard, Lock};
use leasehold_core::{Action, ClientId, HolderId, Operation, Reply};
use leasehold_testkit::harness::{request, soon, until};
use leasehold_testkit::{Proxy, Replicated, must};

use crate::fleet::{Fleet, Network, name};

/// The index of the node that both majorities have in common.
const MIDDLE: usize = 2;

/// Five nodes, two clients that reach three of them each, and the node in the middle replicated.
struct Deployment {
    _fleet: Fleet,
    middle: Replicated,
    left: Network,
    right: Network,
}

impl Deployment {
    fn start() -> Self {
        let fleet = Fleet::start(4);
        let middle = must(Replicated::start(1));
        let network = || {
            let mut network = fleet.network();
            network.proxies.insert(MIDDLE, must(Proxy::start(middle[0].port())));
            network
        };
        let (left, right) = (network(), network());
        Self { _fleet: fleet, middle, left, right }
    }

    /// Cuts each client off from the two nodes of the other.
    fn part(&self) {
        self.left.swallow(&[3, 4], true);
        self.right.swallow(&[0, 1], true);
    }

    /// The replica takes over, without the writes since it was cut off. The holder is not told: it
    /// reaches nothing from which it could learn that.
    fn fail_over(&self) {
        self.left.swallow(&[0, 1, MIDDLE], true);
        // Otherwise the replica would get the missed writes before it takes over.
        must(self.middle[0].stop());
        must(self.middle[1].cont());
        must(self.middle.promote(1));
        let proxy = &self.right.proxies[MIDDLE];
        proxy.lead_to(self.middle[1].port());
        proxy.cut();
    }

    /// A grant that the replica misses, and then the failover.
    async fn grant_and_fail_over(&self, one: &Client, two: &Client) -> Guard {
        // A replica that has no copy yet would get one with the grant in it.
        must(self.middle.wait_in_sync());
        self.part();
        must(self.middle.cut_off(1));
        let first = must(soon(lock(one).acquire()).await);
        let refused = soon(lock(two).try_acquire()).await;
        assert!(!matches!(refused, Ok(Some(_))), "one majority: {refused:?}");
        self.fail_over();
        first
    }
}

fn lock(client: &Client) -> Lock {
    client.mutex("replicated").ttl(Duration::from_secs(50)).renewal(Renewal::Off)
}

#[tokio::test]
async fn h15_with_the_guard_a_replica_that_takes_over_from_a_node_makes_no_second_holder() {
    let deployment = Deployment::start();
    let one = deployment.left.guarded_client().await;
    let two = deployment.right.guarded_client().await;
    // The servers are new.
    must(one.admin().end_quarantine().await);
    let first = deployment.grant_and_fail_over(&one, &two).await;
    for _ in 0..10 {
        let refused = soon(lock(&two).try_acquire()).await;
        assert!(!matches!(refused, Ok(Some(_))), "{refused:?}");
    }
    must(first.ensure_held());
    // Only the guard has prevented the grant.
    deployment.right.swallow(&[0, 1], false);
    must(two.admin().end_quarantine().await);
    drop(must(soon(lock(&two).acquire()).await));
}

/// The test shows that this limit is real.
#[tokio::test]
async fn h15_a_replica_that_takes_over_from_a_node_breaks_exclusion_without_the_guard() {
    let deployment = Deployment::start();
    let (one, two) = (deployment.left.client().await, deployment.right.client().await);
    let first = deployment.grant_and_fail_over(&one, &two).await;
    let second = must(soon(lock(&two).acquire()).await);
    assert!(first.is_held() && second.is_held(), "both at once");
}

/// A failover behind one address passes by itself.
#[tokio::test]
async fn a_node_that_is_a_replica_when_it_is_first_reached_counts_once_it_is_promoted() {
    let fleet = Fleet::start(2);
    let pair = must(Replicated::start(1));
    let mut network = fleet.network();
    network.proxies.push(must(Proxy::start(pair[1].port())));
    network.swallow(&[2], true);
    let store = must(connect(&network.url()).await);
    network.swallow(&[2], false);
    // An attempt that has failed is over.
    let attempts = AtomicU64::new(1);
    let acquire = async || {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        let request = request(HolderId { client: ClientId(1), attempt });
        let action = Action::Take(request);
        store.execute(Operation::On { name: name(&format!("{attempt}")), action }).await
    };
    until("the client sees a replica", async || {
        drop(acquire().await);
        store.warnings().iter().any(|words| words.contains("the server is a replica"))
    })
    .await;
    must(pair.promote(1));
    must(fleet.servers[1].stop());
    until(
        "the promoted node is one of the majority",
        async || matches!(acquire().await, Ok(answer) if matches!(answer.reply, Reply::Granted(_))),
    )
    .await;
}
