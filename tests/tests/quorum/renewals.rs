//! H8, H9: renewals that reach only some nodes, and nodes that have lost the record.

use std::sync::Arc;
use std::time::Duration;

use leasehold::admin::Status;
use leasehold::event::Event;
use leasehold::store::Redis;
use leasehold::{Client, Guard, LossReason};
use leasehold_testkit::harness::{soon, until};
use leasehold_testkit::{Data, must, options_of};
use tokio::sync::Notify;

use crate::fleet::{Fleet, Network, name};

const TTL: Duration = Duration::from_secs(6);

/// A client that reports when a renewal is overdue.
async fn observed(network: &Network) -> (Client, Arc<Notify>) {
    let overdue = Arc::new(Notify::new());
    let rings = Arc::clone(&overdue);
    let observer = move |event: &Event<'_>| {
        if let Event::Overdue { .. } = event {
            rings.notify_one();
        }
    };
    (must(Client::builder().url(network.url()).observer(observer).build().await), overdue)
}

/// Waits until a renewal counts: without one, the validity of a lease only shrinks.
async fn until_renewed(guard: &Guard) {
    let validity = guard.validity();
    until("it is renewed", async || guard.validity() > validity).await;
}

#[tokio::test]
async fn h8_renewals_that_reach_a_minority_end_nothing_before_the_time_is_over() {
    let fleet = Fleet::start(5);
    let network = fleet.network();
    let (client, overdue) = observed(&network).await;
    let name = name("minority renewed");
    let guard = must(client.mutex(&name).ttl(TTL).acquire().await);
    // The renewal also reaches the nodes that were not needed for the grant.
    must(guard.renew().await);
    for index in 0..5 {
        fleet.until(index, &name, |status| status.holders.len() == 1).await;
    }
    network.swallow(&[0, 1, 2], true);
    soon(overdue.notified()).await;
    must(guard.ensure_held());
    // The lease was not released on these nodes either.
    for index in [3, 4] {
        let holders = fleet.seen_by(index, &name).await.holders;
        assert_eq!(holders.iter().map(|h| h.token).collect::<Vec<_>>(), [Some(guard.token())]);
    }
    assert_eq!(soon(guard.lost()).await, Some(LossReason::Expired));
}

#[tokio::test]
async fn h8_a_lease_that_was_overdue_lives_on_once_a_majority_is_reached_again() {
    let fleet = Fleet::start(5);
    let network = fleet.network();
    let (client, overdue) = observed(&network).await;
    let name = name("majority back");
    let guard = must(client.mutex(&name).ttl(Duration::from_secs(10)).acquire().await);
    network.swallow(&[0, 1, 2], true);
    soon(overdue.notified()).await;
    network.swallow(&[0, 1], false);
    until_renewed(&guard).await;
    must(guard.ensure_held());
    must(guard.release().await);
}

#[tokio::test]
async fn h9_a_node_that_has_lost_the_record_is_given_it_back() {
    let mut fleet = Fleet::start(3);
    let client = fleet.client().await;
    let name = name("healed");
    let guard = must(client.mutex(&name).ttl(TTL).acquire().await);
    for index in 0..3 {
        must(fleet.servers[index].restart(Data::Dropped));
        let is_back =
            |status: &Status| status.holders.iter().any(|holder| holder.id == guard.holder());
        fleet.until(index, &name, is_back).await;
        must(guard.ensure_held());
    }
    must(guard.release().await);
}

#[tokio::test]
async fn h9_a_node_that_has_granted_a_newer_token_is_not_taken_back() {
    let mut fleet = Fleet::start(3);
    let client = fleet.client().await;
    let name = name("overtaken");
    let guard = must(client.mutex(&name).ttl(TTL).acquire().await);
    // Nobody renews while the node has forgotten the lease and another client takes it there.
    must(fleet.servers[1].stop());
    must(fleet.servers[2].stop());
    must(fleet.servers[0].restart(Data::Dropped));
    let alone = must(Redis::open(options_of(&fleet.servers[0].url())).await);
    let intruder = must(Client::builder().store(alone).build().await);
    let taken = must(soon(intruder.mutex(&name).acquire()).await);
    must(fleet.servers[1].cont());
    must(fleet.servers[2].cont());
    assert!(taken.token() > guard.token());
    must(guard.renew().await.map(drop));
    let seen = fleet.seen_by(0, &name).await;
    assert_eq!(seen.holders.iter().map(|h| h.id).collect::<Vec<_>>(), [taken.holder()]);
    must(taken.release().await);
    must(guard.renew().await.map(drop));
    // The node is free now, and grants the name to the holder as to anybody.
    fleet.until(0, &name, |status| status.holders.iter().any(|h| h.id == guard.holder())).await;
    must(guard.ensure_held());
}

/// A holder that has adopted its lease is like any other: it restores what a node has forgotten.
#[tokio::test]
async fn a_lease_that_was_handed_over_is_renewed_by_its_new_holder() {
    let fleet = Fleet::start(3);
    let (one, two) = (fleet.client().await, fleet.client().await);
    let name = name("handed over");
    let guard = must(one.mutex(&name).ttl(TTL).acquire().await);
    let token = guard.token();
    let guard = must(two.adopt(must(guard.into_lease())).await);
    assert!(guard.token() > token);
    must(fleet.servers[1].command::<()>("FLUSHALL"));
    let holds = |status: &Status| status.holders.iter().any(|held| held.id == guard.holder());
    fleet.until(1, &name, holds).await;
    until_renewed(&guard).await;
    must(guard.ensure_held());
    let store = fleet.store().await;
    assert!(!store.capabilities().queued);
    must(guard.release().await);
}
