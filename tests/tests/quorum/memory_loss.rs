//! H5, H7: nodes that forget what they granted.

use std::time::Duration;

use leasehold::{Client, Error, Renewal};
use leasehold_testkit::{Data, must};

use crate::fleet::{Fleet, Network, name, soon};

/// One node in the middle forgets, and a second majority is had: what a quorum without a guard
/// does not survive. Kept as a test, so that nobody believes otherwise.
#[tokio::test]
async fn h5_a_node_that_is_restarted_without_its_data_breaks_exclusion() {
    let mut fleet = Fleet::start(5);
    let (left, right) = (fleet.network(), fleet.network());
    let (one, two) = (left.client().await, right.client().await);
    left.swallow(&[3, 4], true);
    right.swallow(&[0, 1], true);
    let lock = |client: &Client| {
        client.mutex("forgotten").ttl(Duration::from_secs(60)).renewal(Renewal::Off)
    };
    let first = must(soon("a lease", lock(&one).acquire()).await);
    let refused = soon("an answer", lock(&two).try_acquire()).await;
    assert!(matches!(refused, Ok(None) | Err(Error::NoQuorum { .. })), "{refused:?}");
    must(fleet.servers[2].restart(Data::Dropped));
    let second = must(soon("a lease", lock(&two).acquire()).await);
    assert!(first.is_held() && second.is_held(), "both at once");
}

/// The same with the guard that a quorum has unless it is switched off: the node that forgot grants
/// nothing new, so there is no second majority, and the holder takes its lease back there.
#[tokio::test]
async fn h5_with_the_guard_a_node_that_is_restarted_without_its_data_makes_no_second_holder() {
    let mut fleet = Fleet::start(5);
    let (left, right) = (fleet.network(), fleet.network());
    let guarded = |network: &Network| network.url().replace("quarantine=off", "quarantine=1h");
    let (one, two) =
        (must(Client::connect(guarded(&left)).await), must(Client::connect(guarded(&right)).await));
    must(one.admin().end_quarantine().await);
    left.swallow(&[3, 4], true);
    right.swallow(&[0, 1], true);
    let lock = |client: &Client| {
        client.mutex("forgotten").ttl(Duration::from_secs(600)).renewal(Renewal::Off)
    };
    let first = must(soon("a lease", lock(&one).acquire()).await);
    must(fleet.servers[2].restart(Data::Dropped));
    let refused = soon("an answer", lock(&two).try_acquire()).await;
    assert!(refused.is_err(), "{refused:?}");
    soon("a renewal", async {
        while first.renew().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let held = fleet.seen_by(2, first.name()).await.holders;
    assert_eq!(held.first().map(|holder| holder.token), Some(first.token()));
    assert!(soon("an answer", lock(&two).try_acquire()).await.is_err(), "it still is not granted");
    must(first.ensure_held());
}

/// The same, and the holder comes first: it takes its lease back by its token.
#[tokio::test]
async fn h7_a_holder_takes_its_lease_back_from_nodes_that_have_all_forgotten_it() {
    let mut fleet = Fleet::start(3);
    let (one, two) = (fleet.client().await, fleet.client().await);
    let name = name("all forgotten");
    let guard = must(one.mutex(&name).ttl(Duration::from_secs(20)).acquire().await);
    let token = guard.token();
    for server in &mut fleet.servers {
        must(server.restart(Data::Dropped));
    }
    // By the keeper at the latest; now, so that nobody else is first.
    soon("a renewal", async {
        while guard.renew().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(must(soon("an answer", two.mutex(&name).try_acquire()).await).is_none());
    assert_eq!(guard.token(), token);
    must(guard.release().await);
    assert!(must(soon("a lease", two.mutex(&name).acquire()).await).token() > token);
}
