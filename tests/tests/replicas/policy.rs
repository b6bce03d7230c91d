//! `replicas=`: what is granted while a replica does not acknowledge, and what is not granted.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::store::{Redis, Store};
use leasehold::{Client, Error, Guard, LossReason};
use leasehold_testkit::{RedisServer, Replicated, must, options_of};

use super::{PATIENCE, SURE, TTL, connect, is_not_replicated, kind, soon, try_acquire, until};

/// Acquires a free lock. A busy machine may delay a healthy replica for too long, so this tries
/// again.
async fn acquire(client: &Client, name: &str) -> Guard {
    must(client.mutex(name).ttl(TTL).acquire_within(PATIENCE).await)
}

#[tokio::test]
async fn a_grant_that_a_stopped_replica_does_not_acknowledge_is_taken_back() {
    let servers = must(Replicated::start(2));
    let url = servers[0].url();
    let careful = connect(&format!("{url}?{SURE}&replicas=all")).await;
    let careless = connect(&url).await;
    must(acquire(&careful, "a").await.release().await);
    must(servers[2].stop());
    let error = try_acquire(&careful, "a").await.unwrap_err();
    assert_eq!(kind(&error), Some(StoreErrorKind::NotReplicated), "{error}");
    for words in ["1 of 2 replicas", "`replicas=` lets held leases end"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    drop(must(try_acquire(&careless, "a").await).expect("what was not replicated is not held"));
    must(servers[2].cont());
    must(acquire(&careful, "a").await.release().await);
}

#[tokio::test]
async fn one_replica_of_two_is_enough_for_one_and_not_for_two() {
    let servers = must(Replicated::start(2));
    must(servers[2].stop());
    let one = connect(&format!("{}?{SURE}&replicas=1", servers[0].url())).await;
    must(acquire(&one, "a").await.release().await);
    let two = connect(&format!("{}?{SURE}&replicas=2", servers[0].url())).await;
    let error = try_acquire(&two, "a").await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
}

#[tokio::test]
async fn a_replica_that_has_gone_does_not_lower_what_all_means() {
    let mut servers = must(Replicated::start(2));
    let client = connect(&format!("{}?{SURE}&replicas=all", servers[0].url())).await;
    must(servers[2].kill9());
    until("the primary has noticed", async || online(&servers[0]) == 1).await;
    let error = try_acquire(&client, "a").await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
}

#[tokio::test]
async fn a_replica_that_is_added_belongs_to_all_from_its_first_exchange() {
    let servers = must(Replicated::start(1));
    let client = connect(&format!("{}?{SURE}&replicas=all", servers[0].url())).await;
    must(acquire(&client, "a").await.release().await);
    let third = RedisServer::options().line(format!("replicaof 127.0.0.1 {}", servers[0].port()));
    let third = must(third.start());
    until("it follows", async || online(&servers[0]) == 2).await;
    must(acquire(&client, "a").await.release().await);
    must(third.stop());
    let error = try_acquire(&client, "a").await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
}

#[tokio::test]
async fn all_of_no_replicas_grants_nothing_and_says_so_on_connecting() {
    let server = must(RedisServer::start());
    let store =
        must(Redis::open(options_of(&format!("{}?{SURE}&replicas=all", server.url()))).await);
    let warnings = store.warnings();
    assert!(
        warnings.iter().any(|words| words.contains("0 replicas follow the server")),
        "{warnings:?}"
    );
    let client = must(Client::builder().store(store).build().await);
    let error = try_acquire(&client, "a").await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
}

#[tokio::test]
async fn d16_a_renewal_that_is_not_acknowledged_prolongs_nothing() {
    let servers = must(Replicated::start(1));
    let client = connect(&format!("{}?{SURE}&replicas=1", servers[0].url())).await;
    let lock = client.mutex("a").ttl(Duration::from_secs(4)).renewal(Renewal::Off);
    let guard = must(lock.acquire_within(PATIENCE).await);
    let lost = guard.lost();
    must(servers[1].stop());
    let before = guard.validity();
    let error = guard.renew().await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
    assert!(guard.validity() < before);
    // The primary has prolonged the lease, and that does not count.
    assert_eq!(lost.await, Some(LossReason::Expired));
}

#[tokio::test]
async fn d16_the_keeper_loses_a_lease_whose_renewals_are_not_acknowledged() {
    let servers = must(Replicated::start(1));
    let client = connect(&format!("{}?{SURE}&replicas=1", servers[0].url())).await;
    let lock = client.mutex("a").ttl(Duration::from_secs(3));
    let guard = must(lock.acquire_within(PATIENCE).await);
    must(servers[1].stop());
    assert_eq!(guard.lost().await, Some(LossReason::Expired));
}

#[tokio::test]
async fn a_waiter_that_is_handed_a_lock_keeps_it_and_its_turn_until_the_replica_has_it() {
    let servers = must(Replicated::start(1));
    let careless = connect(&servers[0].url()).await;
    let url = format!("{}?{SURE}&replicas=1", servers[0].url());
    let held = must(try_acquire(&careless, "a").await).unwrap();
    let name = held.name().clone();
    let mut waiting = Vec::new();
    for number in 1..=2 {
        let lock = connect(&url).await.mutex("a").ttl(TTL);
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        until("it waits", async || must(careless.admin().inspect(&name).await).waiting == number)
            .await;
    }
    let [first, second] = waiting.try_into().unwrap();
    must(servers[1].stop());
    let (waits_before, _) = must(servers[0].command_stats("wait"));
    must(held.release().await);
    // The failed ones are claims of the first client; the second client also polls sometimes.
    until("many a WAIT has ended unfulfilled", async || {
        must(servers[0].command_stats("wait")).0 >= waits_before + 6
    })
    .await;
    let status = must(careless.admin().inspect(&name).await);
    assert_eq!((status.holders.len(), status.waiting), (1, 1), "{status:?}");
    let handed = status.holders[0].id;
    assert!(!first.is_finished() && !second.is_finished());
    must(servers[1].cont());
    let guard = soon(first).await.unwrap().unwrap();
    assert_eq!(guard.holder(), handed, "it was left to its holder");
    must(guard.release().await);
    must(must(soon(second).await.unwrap()).release().await);
}

/// An adoption that is not acknowledged is neither believed nor granted to anybody else. Its
/// adopter asks again, and ends the lease when it gives up.
#[tokio::test]
async fn an_adoption_that_is_not_acknowledged_is_nobodys_until_its_adopter_gives_up() {
    let servers = must(Replicated::start(1));
    let url = servers[0].url();
    let careful = connect(&format!("{url}?{SURE}&replicas=1")).await;
    let careless = connect(&url).await;
    let lease = must(acquire(&careful, "a").await.into_lease());
    must(servers[1].stop());
    let (waits, _) = must(servers[0].command_stats("wait"));
    let adopting = tokio::spawn(async move { careful.adopt(lease).await });
    until("a WAIT has ended unfulfilled", async || {
        must(servers[0].command_stats("wait")).0 > waits
    })
    .await;
    let taken = must(try_acquire(&careless, "a").await);
    assert!(adopting.is_finished() || taken.is_none(), "{taken:?}");
    drop(taken);
    let error = must(soon(adopting).await).unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    must(acquire(&careless, "a").await.release().await);
    must(servers[1].cont());
}

#[tokio::test]
async fn those_who_come_while_a_wait_is_stuck_share_the_next() {
    const NAMES: usize = 50;
    let servers = must(Replicated::start(1));
    let client = connect(&format!("{}?{SURE}&replicas=1", servers[0].url())).await;
    must(servers[1].stop());
    let names: Vec<_> = (0..NAMES).map(|number| format!("{number}")).collect();
    let outcomes = join_all(names.iter().map(|name| try_acquire(&client, name))).await;
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    let (waits, _) = must(servers[0].command_stats("wait"));
    assert!(waits < NAMES as u64, "{waits} WAITs for {NAMES} names");
}

#[tokio::test]
async fn without_the_option_there_is_not_a_command_more() {
    let server = must(RedisServer::start());
    for url in [server.url(), format!("{}?replicas=none", server.url())] {
        let client = connect(&url).await;
        let guard = must(try_acquire(&client, "a").await).unwrap();
        must(guard.renew().await);
        must(guard.release().await);
        must(client.close().await);
    }
    for command in ["wait", "role"] {
        assert_eq!(must(server.command_stats(command)).0, 0, "{command}");
    }
}

fn online(server: &RedisServer) -> usize {
    server.info("replication").map_or(0, |info| info.matches("state=online").count())
}
