//! H1, H2: nodes that are down, unreachable or slow, a minority or a majority of them.

use std::time::Duration;

use leasehold::election::Observed;
use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, LossReason};
use leasehold_testkit::harness::soon;
use leasehold_testkit::must;

use crate::fleet::{Fleet, name};
use crate::{is_no_quorum, is_not_had};

/// A lease is granted, excludes others, and is released. A client that reaches other nodes than the
/// holder may not learn whether the name is busy, but does not get it. The witness reaches the
/// nodes of both.
async fn works(client: &Client, other: &Client, witness: &Client, name: &str) {
    let first = must(soon(client.mutex(name).acquire()).await);
    let refused = soon(other.mutex(name).try_acquire()).await;
    assert!(is_not_had(&refused), "{refused:?}");
    soon(async {
        loop {
            match witness.mutex(name).try_acquire().await {
                Ok(None) => return,
                // A busy machine answers too late.
                Err(error) if is_no_quorum(&error) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                granted => panic!("{granted:?}"),
            }
        }
    })
    .await;
    must(first.ensure_held());
    let token = first.token();
    must(first.release().await);
    let second = must(soon(other.mutex(name).acquire()).await);
    assert!(second.token() > token);
    must(second.release().await);
}

#[tokio::test]
async fn h1_a_minority_that_is_killed_is_not_missed() {
    let mut fleet = Fleet::start(5);
    let (one, two) = (fleet.client().await, fleet.client().await);
    works(&one, &two, &two, "before").await;
    must(fleet.servers[1].kill9());
    must(fleet.servers[4].kill9());
    works(&one, &two, &two, "after").await;
    let late = fleet.client().await;
    works(&late, &one, &one, "connected without them").await;
}

/// The two nodes that are killed are the first at which all clients would look for messages.
#[tokio::test]
async fn h1_an_observer_hears_of_each_leader_although_a_minority_is_killed() {
    let mut fleet = Fleet::start(5);
    let election = fleet.client().await.election("d");
    let mut observation = must(fleet.client().await.election("d").observe().await);
    assert!(matches!(soon(observation.next()).await, Ok(Observed::Nobody)));
    must(fleet.servers[0].kill9());
    must(fleet.servers[1].kill9());
    let values = ["one", "two", "three", "four"];
    for value in values {
        let leadership = must(soon(election.campaign(value)).await);
        must(soon(leadership.resign()).await);
    }
    let mut heard = Vec::new();
    while heard.len() < values.len() {
        if let Observed::Leader(leader) = must(soon(observation.next()).await) {
            heard.push(leader.value);
        }
    }
    assert_eq!(heard, values);
}

/// Two of five nodes never answer: a client that waited for them would wait for ever.
#[tokio::test]
async fn h1_a_minority_that_is_not_reached_is_not_waited_for() {
    let fleet = Fleet::start(5);
    let (near, far) = (fleet.network(), fleet.network());
    let (one, two, all) = (near.client().await, far.client().await, fleet.client().await);
    near.swallow(&[0, 3], true);
    far.swallow(&[2, 3], true);
    for round in 0..5 {
        works(&one, &two, &all, &format!("round {round}")).await;
    }
    let late = fleet.network();
    late.swallow(&[0, 1], true);
    works(&late.client().await, &one, &all, "connected without them").await;
}

#[tokio::test]
async fn h1_a_slow_node_is_released_too() {
    let fleet = Fleet::start(3);
    let network = fleet.network();
    let client = network.client().await;
    network.proxies[2].delay(Duration::from_millis(300));
    let name = name("slow");
    let guard = must(soon(client.mutex(&name).acquire()).await);
    must(guard.release().await);
    for index in 0..3 {
        fleet.until_free(index, &name).await;
    }
}

#[tokio::test]
async fn h1_a_node_that_was_down_at_the_start_joins_when_it_comes_up() {
    use leasehold_testkit::Data;
    let mut fleet = Fleet::start(3);
    must(fleet.servers[0].kill9());
    let client = fleet.client().await;
    let name = name("late node");
    let lock = client.mutex(&name).ttl(Duration::from_secs(3));
    let guard = must(soon(lock.acquire()).await);
    must(fleet.servers[0].restart(Data::Dropped));
    let token = guard.token();
    let is_there =
        |status: &leasehold::admin::Status| status.holders.iter().any(|h| h.token == Some(token));
    fleet.until(0, &name, is_there).await;
    must(fleet.servers[1].kill9());
    must(guard.release().await);
    works(&client, &client, &client, "after").await;
}

#[tokio::test]
async fn h2_without_a_majority_nothing_is_granted_and_what_was_is_released() {
    let mut fleet = Fleet::start(5);
    let client = fleet.client().await;
    let name = name("majority down");
    drop(must(client.mutex("warm").try_acquire().await));
    for index in [0, 2, 4] {
        must(fleet.servers[index].kill9());
    }
    let refused = soon(client.mutex(&name).try_acquire()).await;
    let Err(Error::Store(error)) = refused else { panic!("{refused:?}") };
    let StoreErrorKind::NoQuorum { granted, needed, nodes } = error.kind() else {
        panic!("{error:?}")
    };
    assert_eq!((needed, nodes), (3, 5));
    assert!(granted < needed);
    for index in [1, 3] {
        fleet.until_free(index, &name).await;
    }
}

#[tokio::test]
async fn h2_a_holder_that_loses_the_majority_learns_it_by_its_own_clock() {
    let mut fleet = Fleet::start(3);
    let client = fleet.client().await;
    let guard = must(client.mutex("held").ttl(Duration::from_secs(3)).acquire().await);
    must(fleet.servers[0].kill9());
    must(fleet.servers[1].kill9());
    assert_eq!(soon(guard.lost()).await, Some(LossReason::Expired));
}

#[tokio::test]
async fn h2_a_majority_that_is_down_at_the_start_is_said_in_words() {
    let mut fleet = Fleet::start(3);
    must(fleet.servers[0].kill9());
    must(fleet.servers[1].kill9());
    let outcome = soon(Client::connect(fleet.url())).await;
    let Err(Error::Store(error)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    let words = error.to_string();
    assert!(words.starts_with("1 of 3 nodes can be reached and 2 are needed: "), "{words}");
    for server in &fleet.servers[..2] {
        assert!(words.contains(&server.port().to_string()), "{words}");
    }
}
