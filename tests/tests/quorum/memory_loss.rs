//! H5, H6, H7: nodes that forget what they granted, without the guard against it and with it.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Client, Guard};
use leasehold_testkit::harness::{soon, until};
use leasehold_testkit::{Data, RedisServer, must};

use crate::fleet::{Fleet, Network, name};
use crate::is_not_had;

/// The node in the middle forgets, and a second majority is granted. A quorum without a guard does
/// not survive that. The test shows that this limit is real.
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
    let first = must(soon(lock(&one).acquire()).await);
    let refused = soon(lock(&two).try_acquire()).await;
    assert!(is_not_had(&refused), "{refused:?}");
    must(fleet.servers[2].restart(Data::Dropped));
    let second = must(soon(lock(&two).acquire()).await);
    assert!(first.is_held() && second.is_held(), "both at once");
}

/// The same with the guard, which is on by default. The node that forgot grants nothing new, so
/// there is no second majority, and the holder takes its lease back there.
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
    let first = must(soon(lock(&one).acquire()).await);
    must(fleet.servers[2].restart(Data::Dropped));
    let refused = soon(lock(&two).try_acquire()).await;
    assert!(refused.is_err(), "{refused:?}");
    soon(async {
        while first.renew().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let held = fleet.seen_by(2, first.name()).await.holders;
    assert_eq!(held.first().and_then(|holder| holder.token), Some(first.token()));
    assert!(soon(lock(&two).try_acquire()).await.is_err(), "it still is not granted");
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
    // The keeper does it at the latest; the test does it now, so that nobody else is first.
    until("it is renewed", async || guard.renew().await.is_ok()).await;
    assert!(must(soon(two.mutex(&name).try_acquire()).await).is_none());
    assert_eq!(guard.token(), token);
    must(guard.release().await);
    assert!(must(soon(two.mutex(&name).acquire()).await).token() > token);
}

/// The record of the guard itself survives the power loss, and the grant does not.
#[tokio::test]
async fn h6_with_the_guard_a_node_that_lost_its_last_writes_to_a_power_loss_grants_nothing_new() {
    let mut fleet = Fleet::start_with(5, &RedisServer::options().append_only("everysec"));
    let (left, right) = (fleet.network(), fleet.network());
    let (one, two) = (left.guarded_client().await, right.guarded_client().await);
    // The servers are new.
    must(one.admin().end_quarantine().await);
    left.swallow(&[3, 4], true);
    right.swallow(&[0, 1], true);
    let lock = |client: &Client| {
        client.mutex("cut off").ttl(Duration::from_secs(50)).renewal(Renewal::Off)
    };
    let first = must(soon(lock(&one).acquire()).await);
    must(fleet.servers[2].lose_power(1));
    let refused = soon(lock(&two).try_acquire()).await;
    assert!(!matches!(refused, Ok(Some(_))), "{refused:?}");
    must(first.ensure_held());
}

#[tokio::test]
async fn h7_with_the_guard_nobody_else_is_first_when_all_nodes_have_forgotten() {
    let mut fleet = Fleet::start(3);
    let network = fleet.network();
    let (one, two) = (network.guarded_client().await, network.guarded_client().await);
    must(one.admin().end_quarantine().await);
    let name = name("all forgotten, guarded");
    let guard = must(one.mutex(&name).ttl(Duration::from_secs(30)).acquire().await);
    for server in &mut fleet.servers {
        must(server.restart(Data::Dropped));
    }
    let refused = soon(two.mutex(&name).try_acquire()).await;
    assert!(!matches!(refused, Ok(Some(_))), "{refused:?}");
    until("it is renewed", async || guard.renew().await.is_ok()).await;
    for index in 0..3 {
        fleet.until(index, &name, |status| status.holders.len() == 1).await;
    }
    must(guard.ensure_held());
}

/// A lease whose holder renews it when the test says so, and another client that knows of no
/// quarantine and asks for locks immediately.
async fn held_beside_another(fleet: &Fleet) -> (Guard, Client) {
    let url = fleet.url().replace("quarantine=off", "quarantine=1m");
    let (one, two) = (must(Client::connect(&url).await), must(Client::connect(&url).await));
    must(one.admin().end_quarantine().await);
    let other = two.mutex("another name");
    must(must(soon(other.acquire()).await).release().await);
    let lock = one.mutex("in turn").ttl(Duration::from_secs(50)).renewal(Renewal::Off);
    (must(soon(lock.acquire()).await), two)
}

/// Renews until a node has the lease: a renewal that a majority has granted does not wait for a
/// slow node.
async fn renew_at(fleet: &Fleet, index: usize, held: &Guard) {
    until("the node has the lease", async || {
        must(held.renew().await);
        fleet.seen_by(index, held.name()).await.holders.len() == 1
    })
    .await;
}

#[tokio::test]
async fn nodes_that_forget_one_after_the_other_beside_one_who_tries_keep_the_holder() {
    let fleet = Fleet::start(3);
    let (held, other) = held_beside_another(&fleet).await;
    for index in 0..3 {
        must(fleet.servers[index].command::<()>("FLUSHALL"));
        let refused = soon(other.mutex(held.name()).try_acquire()).await;
        assert!(!matches!(refused, Ok(Some(_))), "{refused:?}");
        renew_at(&fleet, index, &held).await;
    }
    must(held.ensure_held());
}

#[tokio::test]
async fn nodes_that_forget_one_after_the_other_beside_a_waiter_keep_the_holder() {
    let fleet = Fleet::start(3);
    let (held, other) = held_beside_another(&fleet).await;
    let name = held.name().clone();
    let waiting = tokio::spawn(async move { other.mutex(name).acquire().await });
    for index in 0..3 {
        must(fleet.servers[index].command::<()>("FLUSHALL"));
        // The waiter asks there before the holder renews.
        until("somebody has noticed", async || {
            must(fleet.servers[index].command::<u64>("EXISTS lh:%boot")) == 1
        })
        .await;
        renew_at(&fleet, index, &held).await;
    }
    must(held.ensure_held());
    assert!(!waiting.is_finished());
    waiting.abort();
}
