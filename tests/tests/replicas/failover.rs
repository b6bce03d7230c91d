//! Failovers that forget, and primaries that were left behind: what each `replicas=` prevents, and
//! what it does not prevent.
//!
//! The client of the old primary and the client of the new one have two URLs, as if each had
//! learned another primary.

use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::{Client, Error, Guard};
use leasehold_testkit::{Data, RedisServer, Replicated, must};

use super::{PATIENCE, SURE, TTL, connect, is_not_replicated, kind, try_acquire, until};

/// Takes a free lock, without renewals: the test renews.
async fn take(client: &Client) -> Guard {
    let lock = client.mutex("a").ttl(TTL).renewal(Renewal::Off);
    must(lock.acquire_within(PATIENCE).await)
}

/// A client of one of the servers.
async fn of(servers: &Replicated, at: usize, options: &str) -> Client {
    connect(&format!("{}?{SURE}&{options}", servers[at].url())).await
}

/// The last replica misses a grant, is promoted, and grants the name again.
async fn forgets_a_grant(replicas: usize, options: &str) {
    let mut servers = must(Replicated::start(replicas));
    let before = of(&servers, 0, options).await;
    must(servers.cut_off(replicas));
    let forgotten = take(&before).await;
    must(servers[0].kill9());
    must(servers[replicas].cont());
    must(servers.promote(replicas));
    let second = take(&of(&servers, replicas, "").await).await;
    assert!(forgotten.is_held() && second.is_held(), "exclusion is broken, as was expected");
    assert!(second.token() > forgotten.token(), "but not the order of tokens");
}

#[tokio::test]
async fn d1_a_failover_that_forgets_a_grant_makes_it_twice_and_the_second_token_is_higher() {
    forgets_a_grant(1, "").await;
}

#[tokio::test]
async fn d2_with_all_replicas_a_grant_that_a_failover_would_forget_is_not_made() {
    let mut servers = must(Replicated::start(1));
    let before = of(&servers, 0, "replicas=all").await;
    must(servers.cut_off(1));
    let error = try_acquire(&before, "a").await.unwrap_err();
    assert!(is_not_replicated(&error), "{error}");
    must(servers[0].kill9());
    must(servers[1].cont());
    must(servers.promote(1));
    drop(take(&of(&servers, 1, "").await).await);
}

#[tokio::test]
async fn d2_with_all_replicas_a_grant_survives_the_failover() {
    let mut servers = must(Replicated::start(2));
    let before = of(&servers, 0, "replicas=all").await;
    let held = take(&before).await;
    must(servers[0].kill9());
    for heir in [1, 2] {
        must(servers.promote(heir));
        let after = of(&servers, heir, "").await;
        let seen = must(after.admin().inspect(held.name()).await);
        assert_eq!(seen.holders.first().and_then(|holder| holder.token), Some(held.token()));
        assert!(must(try_acquire(&after, "a").await).is_none(), "it is held there too");
    }
}

#[tokio::test]
async fn d3_with_fewer_than_all_replicas_the_one_that_is_promoted_may_have_missed_the_grant() {
    forgets_a_grant(2, "replicas=1").await;
}

/// A primary that was stopped goes on after its replica has taken over. Returns what it grants to a
/// client that still reaches it, while another client holds the lock at the new primary.
async fn ask_a_zombie(options: &str) -> (Guard, Result<Option<Guard>, Error>) {
    let servers = must(Replicated::start(1));
    let late = of(&servers, 0, options).await;
    must(servers[0].stop());
    must(servers.promote(1));
    let held = take(&of(&servers, 1, "").await).await;
    must(servers[0].cont());
    until("the old primary answers", async || servers[0].role().is_some()).await;
    assert_eq!(servers[0].role().as_deref(), Some("master"), "nobody has told it");
    let outcome = try_acquire(&late, "a").await;
    (held, outcome)
}

#[tokio::test]
async fn d5_a_primary_that_was_left_behind_grants_what_is_held_elsewhere() {
    let (held, outcome) = ask_a_zombie("").await;
    let second = must(outcome).unwrap();
    assert!(held.is_held() && second.is_held(), "exclusion is broken, as was expected");
}

#[tokio::test]
async fn d5_with_all_replicas_a_primary_that_was_left_behind_grants_nothing() {
    let (_held, outcome) = ask_a_zombie("replicas=all").await;
    assert!(outcome.as_ref().is_err_and(is_not_replicated), "{outcome:?}");
}

#[tokio::test]
async fn d5_with_fewer_than_all_a_replica_that_was_not_told_goes_on_acknowledging() {
    let servers = must(Replicated::start(2));
    let late = of(&servers, 0, "replicas=1").await;
    // As a sentinel does, before it has reached the other replica.
    must(servers[1].command::<()>("REPLICAOF NO ONE"));
    let held = take(&of(&servers, 1, "").await).await;
    let second = take(&late).await;
    assert!(held.is_held() && second.is_held(), "exclusion is broken, as was expected");
}

/// A primary whose replica is on the other side of a partition and was promoted there. Returns what
/// its clients are granted, while another client holds the lock on the other side.
async fn ask_across_a_partition(min_replicas: u32) -> Result<Option<Guard>, Error> {
    let options = RedisServer::options().line("min-replicas-max-lag 1");
    let servers = must(Replicated::start_with(options, &[100]));
    let setting = format!("CONFIG SET min-replicas-to-write {min_replicas}");
    must(servers[0].command::<()>(&setting));
    let cut_off = of(&servers, 0, "").await;
    must(servers[1].command::<()>("REPLICAOF NO ONE"));
    until("the primary has noticed", async || {
        servers[0].info("replication").is_ok_and(|info| info.contains("connected_slaves:0"))
    })
    .await;
    let held = take(&of(&servers, 1, "").await).await;
    let outcome = try_acquire(&cut_off, "a").await;
    assert!(held.is_held());
    outcome
}

#[tokio::test]
async fn d6_both_sides_of_a_partition_grant_the_same_lock() {
    let outcome = ask_across_a_partition(0).await;
    assert!(must(outcome).is_some(), "exclusion is broken, as was expected");
}

#[tokio::test]
async fn d6_with_min_replicas_the_side_without_a_replica_refuses() {
    let error = ask_across_a_partition(1).await.unwrap_err();
    assert_eq!(kind(&error), Some(StoreErrorKind::NotReplicated), "{error}");
    assert!(error.to_string().contains("min-replicas-to-write"), "{error}");
}

#[tokio::test]
async fn d10_a_primary_that_comes_back_empty_empties_its_replicas_whatever_they_acknowledged() {
    let mut servers = must(Replicated::start(1));
    let before = of(&servers, 0, "replicas=all").await;
    let forgotten = take(&before).await;
    must(servers[0].restart(Data::Dropped));
    must(servers.wait_in_sync());
    assert_eq!(must(servers[1].command::<u64>("DBSIZE")), 0, "the replica is empty too");
    let second = take(&of(&servers, 0, "replicas=all").await).await;
    assert!(forgotten.is_held() && second.is_held(), "exclusion is broken, as was expected");
    assert!(second.token() > forgotten.token(), "but not the order of tokens");
}
