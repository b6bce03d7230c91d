//! H10, H16, H17: requests and answers that arrive late, or not at all.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::store::redis_wire::Script;
use leasehold::{Error, LockName};
use leasehold_testkit::harness::{soon, until};
use leasehold_testkit::must;
use leasehold_testkit::proxy::Fault;

use crate::fleet::{Fleet, name};

/// Waits until a node remembers an attempt that has ended, and nobody holds the name.
async fn until_remembered(fleet: &Fleet, index: usize, name: &LockName) {
    fleet.until(index, name, |status| status.holders.is_empty()).await;
    // The node's list of all nodes is a key, too, and may be left there at any time.
    let records = || must(fleet.servers[index].command::<Vec<String>>("KEYS *held*"));
    until("it is remembered", async || !records().is_empty()).await;
}

/// One node is down, and the network holds back the take of another one. The round fails, and both
/// are told that it is over. A later delivery grants nothing.
#[tokio::test]
async fn h10_an_acquire_that_arrives_after_its_round_has_failed_grants_nothing() {
    let mut fleet = Fleet::start(3);
    let network = fleet.network();
    let client = network.client().await;
    drop(must(client.mutex("warm").try_acquire().await));
    let name = name("held back");
    must(fleet.servers[0].kill9());
    must(fleet.servers[1].command::<()>("FLUSHALL"));
    must(fleet.servers[2].command::<()>("FLUSHALL"));
    network.proxies[2].strike(1, Script::Take, Fault::HoldRequest);
    // The first round fails; a later one may find another connection.
    drop(soon(client.mutex(&name).try_acquire()).await);
    fleet.until_free(1, &name).await;
    until_remembered(&fleet, 2, &name).await;
    must(network.proxies[2].deliver());
    for index in [1, 2] {
        assert!(fleet.seen_by(index, &name).await.holders.is_empty());
    }
}

/// A node that was not needed has not heard of the take when a renewal arrives. It is asked to
/// grant the name anew. The first take arrives after the release and grants nothing.
#[tokio::test]
async fn h10_an_acquire_that_arrives_after_a_renewal_and_the_release_grants_nothing() {
    let fleet = Fleet::start(3);
    let network = fleet.network();
    let client = network.client().await;
    drop(must(client.mutex("warm").try_acquire().await));
    let name = name("held back");
    network.proxies[2].strike(1, Script::Take, Fault::HoldRequest);
    let lock = client.mutex(&name).ttl(Duration::from_secs(3));
    let guard = must(soon(lock.acquire()).await);
    // The keeper sends renewals on a separate connection.
    fleet.until(2, &name, |status| !status.holders.is_empty()).await;
    must(soon(guard.release()).await);
    fleet.until(2, &name, |status| status.holders.is_empty()).await;
    must(network.proxies[2].deliver());
    assert!(fleet.seen_by(2, &name).await.holders.is_empty());
}

/// The nodes that do not hear of a release keep the lease until it ends; the others are enough.
#[tokio::test]
async fn h16_a_release_that_two_of_five_nodes_do_not_hear_frees_the_lock() {
    let fleet = Fleet::start(5);
    let network = fleet.network();
    let (one, two) = (network.client().await, fleet.client().await);
    let name = name("half released");
    let guard = must(one.mutex(&name).ttl(Duration::from_secs(5)).acquire().await);
    let token = guard.token();
    // A busy machine may have left a minority out.
    let mut granted = Vec::new();
    for index in 0..5 {
        if !fleet.seen_by(index, &name).await.holders.is_empty() {
            granted.push(index);
        }
    }
    assert!(granted.len() >= 3, "{granted:?}");
    network.swallow(&[1, 3], true);
    must(soon(guard.release()).await);
    let guard = must(soon(two.mutex(&name).acquire()).await);
    assert!(guard.token() > token);
    let after = guard.token();
    must(guard.release().await);
    // Where the release was not heard, the first lease ends by its deadline.
    for index in granted {
        fleet.until_free(index, &name).await;
    }
    assert!(must(two.mutex(&name).acquire().await).token() > after);
}

/// A grant whose reply comes when the round is over is not counted, and it is released.
#[tokio::test]
async fn h17_a_grant_whose_reply_comes_too_late_is_released() {
    let mut fleet = Fleet::start(3);
    let network = fleet.network();
    let client = network.client().await;
    drop(must(client.mutex("warm").try_acquire().await));
    let name = name("too late");
    must(fleet.servers[0].kill9());
    network.proxies[2].mute(true);
    let refused = soon(client.mutex(&name).try_acquire()).await;
    assert!(refused.is_err(), "one of three granted it in time: {refused:?}");
    network.proxies[2].mute(false);
    for index in [1, 2] {
        fleet.until_free(index, &name).await;
    }
    must(must(soon(client.mutex(&name).acquire()).await).release().await);
}

/// Two nodes always answer before the third. Neither its connection nor the requests on it before
/// the first grant may depend on callers that are content with the majority.
#[tokio::test]
async fn a_node_that_answers_after_a_majority_is_granted_leases_too() {
    let fleet = Fleet::start(3);
    let network = fleet.network();
    let far = &network.proxies[2];
    let client = network.guarded_client().await;
    must(client.admin().end_quarantine().await);
    far.delay(Duration::from_millis(40));
    let name = name("far");
    until("the far node has granted one", async || {
        let lock = client.mutex(&name).ttl(Duration::from_secs(30)).renewal(Renewal::Off);
        match soon(lock.once_per(Duration::from_secs(1)).acquire()).await {
            Err(Error::AlreadyDone { .. }) => {}
            granted => must(must(granted).done().await),
        }
        fleet.seen_by(2, &name).await.last_holder.is_some()
    })
    .await;
}
