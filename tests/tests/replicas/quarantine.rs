//! `quarantine=`: a server that has forgotten its holders grants nothing new until the quarantine
//! is over, and holders take their leases back.

use std::time::{Duration, Instant};

use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::store::{Redis, Store};
use leasehold::{Client, Error, Guard};
use leasehold_testkit::harness::{goes_on, renew};
use leasehold_testkit::{Data, Proxy, RedisServer, Replicated, SentinelFleet, must, options_of};

use super::{LOOK_EVERY, PATIENCE, TTL, connect, kind, soon, try_acquire, until};

/// In these tests, an operator ends a quarantine, except in tests about its end.
const ON: &str = "?quarantine=1m";

/// A quarantine that a test waits for.
const SHORT: Duration = Duration::from_secs(2);

/// Acquires on behalf of a holder that renews when the test says so.
async fn take(client: &Client) -> Guard {
    let lock = client.mutex("a").ttl(TTL).renewal(Renewal::Off);
    must(lock.acquire_within(PATIENCE).await)
}

/// The answer that a newcomer gets.
async fn ask(client: &Client) -> Result<Option<Guard>, Error> {
    try_acquire(client, "a").await
}

#[track_caller]
fn assert_quarantined(outcome: &Result<Option<Guard>, Error>) {
    let kind = outcome.as_ref().err().and_then(kind);
    assert_eq!(kind, Some(StoreErrorKind::Quarantined), "{outcome:?}");
}

/// Two clients of a server that is known to be new.
async fn two(url: &str) -> (Client, Client) {
    let clients = (connect(url).await, connect(url).await);
    must(clients.0.admin().end_quarantine().await);
    clients
}

#[tokio::test]
async fn a_new_server_grants_nothing_before_the_end_of_its_quarantine() {
    let server = must(RedisServer::start());
    let url = format!("{}?quarantine={}s", server.url(), SHORT.as_secs());
    let store = must(Redis::open(options_of(&url)).await);
    let warnings = store.warnings();
    assert!(warnings.iter().any(|words| words.contains("nothing new is granted")), "{warnings:?}");
    let client = must(Client::builder().store(store).build().await);
    let lock = client.mutex("a").ttl(SHORT);
    let guard = must(lock.acquire_within(PATIENCE).await);
    let since: u64 = must(server.command("HGET lh:%boot since"));
    assert!(guard.token().micros() >= since + SHORT.as_micros() as u64, "it came too early");
}

#[tokio::test]
async fn who_notices_later_does_not_begin_the_quarantine_anew() {
    let server = must(RedisServer::start());
    let url = format!("{}{ON}", server.url());
    let first = connect(&url).await;
    let since: u64 = must(server.command("HGET lh:%boot since"));
    assert_quarantined(&ask(&first).await);
    assert_quarantined(&ask(&connect(&url).await).await);
    assert_eq!(must(server.command::<u64>("HGET lh:%boot since")), since);
}

#[tokio::test]
async fn a_server_that_was_a_replica_for_a_while_is_in_quarantine_when_it_leads_again() {
    let servers = must(Replicated::start(1));
    let (first, second) = (&servers.servers()[0], &servers.servers()[1]);
    let (client, _) = two(&format!("{}{ON}", first.url())).await;
    must(must(ask(&client).await).unwrap().release().await);
    // The grant never reaches the replica, and no other client writes there.
    must(servers.cut_off(1));
    let _forgotten = take(&client).await;
    must(second.cont());
    must(servers.promote(1));
    must(servers.wait_in_sync());
    must(servers.promote(0));
    must(servers.wait_in_sync());
    assert_quarantined(&ask(&connect(&format!("{}{ON}", first.url())).await).await);
}

#[tokio::test]
async fn a_first_replica_begins_no_quarantine() {
    let (server, replica) = (must(RedisServer::start()), must(RedisServer::start()));
    let (client, _) = two(&format!("{}{ON}", server.url())).await;
    let id = || {
        must(server.info("replication"))
            .lines()
            .find(|l| l.starts_with("master_replid:"))
            .map(str::to_owned)
    };
    let before = id();
    must(replica.command::<()>(&format!("REPLICAOF 127.0.0.1 {}", server.port())));
    until("the replica has come", async || id() != before).await;
    assert!(must(ask(&client).await).is_some());
}

#[tokio::test]
async fn a_lease_that_could_outlive_the_quarantine_is_refused_before_anything_is_sent() {
    let server = must(RedisServer::start());
    let (client, _) = two(&format!("{}?quarantine=10s", server.url())).await;
    let error = client.mutex("a").ttl(TTL).try_acquire().await.unwrap_err();
    assert_eq!(kind(&error), Some(StoreErrorKind::Unsupported), "{error}");
    assert!(error.to_string().contains("quarantine"), "{error}");
    assert_eq!(must(server.command::<u64>("EXISTS lh:{a}")), 0);
}

#[tokio::test]
async fn c1_after_a_restart_without_data_the_holder_goes_on_and_nobody_else_is_let_in() {
    let mut server = must(RedisServer::start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let held = take(&holder).await;
    must(server.restart(Data::Dropped));
    eventually_quarantined(&other).await;
    let validity = goes_on(&held, &other).await;
    assert!(held.is_held() && validity > TTL / 2, "{validity:?}");
    assert_quarantined(&ask(&other).await);
    let token = held.token();
    must(held.release().await);
    must(other.admin().end_quarantine().await);
    assert!(take(&other).await.token() > token);
}

/// A newcomer may find its connection dead before it learns why.
async fn eventually_quarantined(client: &Client) {
    let since = Instant::now();
    loop {
        match ask(client).await {
            Err(error) if kind(&error) == Some(StoreErrorKind::Quarantined) => return,
            Err(error) if error.is_transient() => assert!(since.elapsed() < PATIENCE, "{error}"),
            outcome => panic!("{outcome:?}"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[tokio::test]
async fn c2_after_a_restart_that_forgot_nothing_there_is_a_quarantine_all_the_same() {
    let mut server = must(RedisServer::options().append_only("always").start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let held = take(&holder).await;
    must(server.restart(Data::Kept));
    eventually_quarantined(&other).await;
    goes_on(&held, &other).await;
}

#[tokio::test]
async fn c3_after_a_power_loss_that_took_the_grant_the_holder_takes_it_back() {
    let mut server = must(RedisServer::options().append_only("always").start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let held = take(&holder).await;
    must(server.lose_power(1));
    assert_eq!(must(server.command::<u64>("EXISTS lh:{a}")), 0, "the grant is lost");
    assert_eq!(must(server.command::<u64>("EXISTS lh:%boot")), 1, "the boot record is not");
    eventually_quarantined(&other).await;
    goes_on(&held, &other).await;
}

#[tokio::test]
async fn c11_after_a_flush_the_holder_goes_on_and_nobody_else_is_let_in() {
    for flush in ["FLUSHALL", "FLUSHDB ASYNC", "SWAPDB 0 1"] {
        let server = must(RedisServer::start());
        let (holder, other) = two(&format!("{}{ON}", server.url())).await;
        let held = take(&holder).await;
        must(server.command::<()>(flush));
        goes_on(&held, &other).await;
        assert_quarantined(&ask(&other).await);
        must(held.release().await);
        assert_quarantined(&ask(&other).await);
        must(holder.admin().end_quarantine().await);
        drop(take(&other).await);
    }
}

/// The boot record notices restarts and flushes, but not a deleted key: eviction breaks exclusion.
#[tokio::test]
async fn c9_with_the_guard_too_a_lock_that_is_deleted_is_granted_again() {
    let server = must(RedisServer::start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let forgotten = take(&holder).await;
    must(server.command::<()>("DEL lh:{a}"));
    let second = take(&other).await;
    assert!(forgotten.is_held() && second.is_held(), "exclusion is broken, as was expected");
    assert!(second.token() > forgotten.token(), "but not the order of tokens");
}

#[tokio::test]
async fn c11_the_keeper_takes_back_what_a_flush_has_forgotten() {
    let server = must(RedisServer::start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let lock = holder.mutex("a").ttl(Duration::from_secs(6)).label("nightly");
    let held = must(lock.acquire_within(PATIENCE).await);
    must(server.command::<()>("FLUSHALL"));
    until("it holds again", async || must(server.command::<u64>("EXISTS lh:{a}")) == 1).await;
    let status = must(other.admin().inspect(held.name()).await);
    let label = status.holders.first().and_then(|holder| holder.info.label.as_deref());
    assert_eq!(label, Some("nightly"));
    must(held.release().await);
}

#[tokio::test]
async fn c11_a_waiter_is_not_let_in_by_a_flush_and_waits_on() {
    let server = must(RedisServer::start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let held = take(&holder).await;
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.mutex("a").ttl(TTL).acquire().await }
    });
    let joined = async || must(server.command::<u64>("ZCARD lh:{a}:q")) == 1;
    until("it waits", &joined).await;
    must(server.command::<()>("FLUSHALL"));
    // The waiter asks at least once a second, and finds the quarantine.
    until("somebody has noticed", async || must(server.command::<u64>("EXISTS lh:%boot")) == 1)
        .await;
    must(renew(&held).await);
    assert!(!waiting.is_finished());
    must(holder.admin().end_quarantine().await);
    until("it waits again", &joined).await;
    let token = held.token();
    must(held.release().await);
    let second = must(soon(waiting).await.unwrap());
    assert!(second.token() > token);
}

#[tokio::test]
async fn c11_a_newcomer_in_the_moment_of_a_flush_is_refused_and_leaves_no_token_behind() {
    let server = must(RedisServer::start());
    let (holder, other) = two(&format!("{}{ON}", server.url())).await;
    let held = take(&holder).await;
    // The other client has seen the end of the quarantine, and asks for locks immediately.
    must(must(other.mutex("b").ttl(TTL).acquire_within(PATIENCE).await).release().await);
    must(server.command::<()>("FLUSHALL"));
    assert_quarantined(&ask(&other).await);
    assert_eq!(must(server.command::<Vec<String>>("KEYS *")), ["lh:%boot"]);
    goes_on(&held, &other).await;
}

#[tokio::test]
async fn d4_after_a_failover_that_forgot_the_grant_the_holder_takes_it_back() {
    let mut fleet = must(SentinelFleet::start());
    let (holder, other) = two(&format!("{}{ON}", fleet.url())).await;
    must(fleet.servers().wait_in_sync());
    must(fleet.servers().cut_off(1));
    let held = take(&holder).await;
    must(fleet.servers_mut()[0].kill9());
    must(fleet.servers()[1].cont());
    assert_eq!(must(fleet.wait_for_another_primary(0)), 1);
    assert_eq!(must(fleet.servers()[1].command::<u64>("EXISTS lh:{a}")), 0, "it was forgotten");
    eventually_quarantined(&other).await;
    goes_on(&held, &other).await;
    assert_quarantined(&ask(&other).await);
}

#[tokio::test]
async fn d10_after_a_primary_came_back_empty_the_holder_takes_back_what_all_replicas_lost() {
    let mut servers = must(Replicated::start(1));
    let url = format!("{}{ON}&replicas=all&timeout=20s", servers[0].url());
    let (holder, other) = two(&url).await;
    let held = take(&holder).await;
    must(servers[0].restart(Data::Dropped));
    must(servers.wait_in_sync());
    assert_eq!(must(servers[1].command::<u64>("EXISTS lh:{a}")), 0, "the replica is empty too");
    eventually_quarantined(&other).await;
    goes_on(&held, &other).await;
}

/// The main connection still leads to the first server when one for WAIT is opened.
#[tokio::test]
async fn no_script_that_names_one_run_of_a_server_reaches_another_run() {
    let (first, second) = (must(Replicated::start(1)), must(Replicated::start(1)));
    let proxy = must(Proxy::start(first[0].port()));
    let (client, _) = two(&format!("{}{ON}&replicas=1", proxy.url())).await;
    proxy.lead_next_to(second[0].port());
    eventually_quarantined(&client).await;
    let run: String = must(second[0].command("HGET lh:%boot run"));
    assert!(must(second[0].info("server")).contains(&format!("run_id:{run}")), "{run}");
}
