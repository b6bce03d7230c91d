//! Permanent errors are reported immediately, with their remedy, by every verb that acquires.

use std::time::Duration;

use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::Redis;
use leasehold::{Client, Error, FencingToken, Lock, LockName};
use leasehold_testkit::harness::{PATIENCE, acquiring, soon};
use leasehold_testkit::{RedisServer, must};

use crate::fleet::{Fleet, url};
use crate::is_no_quorum;

/// The error of each verb.
async fn refusals(lock: &Lock) -> Vec<StoreError> {
    let outcomes = [
        soon(lock.acquire()).await.map(Some),
        soon(lock.acquire_within(PATIENCE)).await.map(Some),
        soon(lock.try_acquire()).await,
    ];
    let refusal = |outcome| match outcome {
        Err(Error::Store(error)) => error,
        other => panic!("{other:?}"),
    };
    outcomes.into_iter().map(refusal).collect()
}

async fn all_say(lock: &Lock, kind: StoreErrorKind, remedy: &str) {
    for error in refusals(lock).await {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(remedy) && !error.to_string().contains('\n'), "{error}");
    }
}

#[tokio::test]
async fn a_ttl_above_the_quarantine_is_refused_at_once() {
    let fleet = Fleet::start(3);
    let client =
        must(Client::connect(fleet.url().replace("quarantine=off", "quarantine=1m")).await);
    let lock = client.mutex("long").ttl(Duration::from_mins(2));
    all_say(&lock, StoreErrorKind::Unsupported, "ask for less, or write quarantine=off").await;
}

#[tokio::test]
async fn nodes_that_are_full_are_said_to_be() {
    let fleet = Fleet::start(3);
    let client = fleet.client().await;
    let guard = must(soon(client.mutex("before").acquire()).await);
    for server in &fleet.servers[..2] {
        must(server.command::<()>("CONFIG SET maxmemory 1"));
    }
    all_say(&client.mutex("full"), StoreErrorKind::Full, "raise maxmemory").await;
    must(soon(guard.release()).await);
    // A full node and an absent one leave no majority.
    must(fleet.servers[0].command::<()>("CONFIG SET maxmemory 0"));
    must(must(soon(client.mutex("full").acquire()).await).release().await);
}

#[tokio::test]
async fn a_right_that_a_script_lacks_half_way_is_named() {
    let rights = Redis::HOLDER_RIGHTS.replace("+set ", "");
    let options = RedisServer::options().user(&format!("poor on >pw {rights}"));
    let fleet = Fleet::start_with(3, &options);
    let client = must(Client::connect(fleet.url().replace("://", "://poor:pw@")).await);
    all_say(&client.mutex("poor"), StoreErrorKind::Denied, "lacks a right").await;
}

/// The errors of each verb that finds a lease, for a name.
async fn operators_are_told(client: &Client, name: &str, kind: StoreErrorKind) {
    let (admin, name) = (client.admin(), must(LockName::new(name)));
    let token = FencingToken::from_micros(1_800_000_000_000_000);
    let outcomes = [
        soon(admin.inspect(&name)).await.map(drop),
        soon(admin.revoke(&name, token)).await.map(drop),
        soon(admin.revoke_now(&name, token)).await.map(drop),
    ];
    for outcome in outcomes {
        let is_said = matches!(&outcome, Err(Error::Store(error)) if error.kind() == kind);
        assert!(is_said, "{outcome:?}");
    }
}

#[tokio::test]
async fn a_foreign_or_damaged_record_is_named_and_left_as_it_is() {
    let fleet = Fleet::start(3);
    let client = fleet.client().await;
    drop(must(client.mutex("warm").try_acquire().await));
    for server in &fleet.servers[1..] {
        must(server.command::<()>("SET lh:{foreign} mine"));
        must(server.command::<()>("HSET lh:{damaged} field mine"));
    }
    for name in ["foreign", "damaged"] {
        all_say(&client.mutex(name), StoreErrorKind::Corrupt, "delete it").await;
        operators_are_told(&client, name, StoreErrorKind::Corrupt).await;
    }
    let left: String = must(fleet.servers[1].command("GET lh:{foreign}"));
    assert_eq!(left, "mine");
    // A client that has had no answer yet gets the same error.
    let newcomer = fleet.client().await;
    all_say(&newcomer.mutex("foreign"), StoreErrorKind::Corrupt, "2 of 3 nodes refuse: ").await;
}

#[tokio::test]
async fn a_lease_whose_record_is_damaged_is_neither_changed_nor_renewed() {
    let fleet = Fleet::start(3);
    let client = fleet.client().await;
    let guard = must(soon(client.mutex("bad").acquire()).await);
    let lease = must(soon(client.mutex("lent").acquire()).await).into_lease();
    for server in &fleet.servers {
        must(server.command::<()>("SET lh:{bad} garbage"));
        must(server.command::<()>("SET lh:{lent} garbage"));
    }
    let is_said = |error: &Error| match error {
        Error::Store(error) => error.kind() == StoreErrorKind::Corrupt,
        _ => false,
    };
    let renewed = soon(guard.renew()).await.unwrap_err();
    assert!(is_said(&renewed), "{renewed:?}");
    let adopted = soon(client.adopt(must(lease))).await.unwrap_err();
    assert!(is_said(&adopted), "{adopted:?}");
    let released = soon(guard.release()).await.unwrap_err();
    assert!(is_said(&released), "{released:?}");
}

#[tokio::test]
async fn a_majority_does_without_a_node_whose_record_is_damaged() {
    let fleet = Fleet::start(3);
    let client = fleet.client().await;
    must(fleet.servers[0].command::<()>("HSET lh:{bad} s garbage"));
    let guard = must(soon(client.mutex("bad").acquire()).await);
    must(soon(guard.renew()).await);
    let status = must(soon(client.admin().inspect(guard.name())).await);
    assert_eq!(status.holders.len(), 1);
    must(soon(guard.release()).await);
}

/// One node refuses, and another one is away: the client waits until that one is back.
#[tokio::test]
async fn one_that_refuses_beside_one_that_is_away_is_waited_out() {
    use leasehold_testkit::Data;
    let mut fleet = Fleet::start(3);
    let client = fleet.client().await;
    drop(must(client.mutex("warm").try_acquire().await));
    must(fleet.servers[0].command::<()>("CONFIG SET maxmemory 1"));
    must(fleet.servers[1].kill9());
    let waiting = acquiring(client.mutex("patient"));
    let tried = soon(client.mutex("another").try_acquire()).await;
    assert!(tried.as_ref().is_err_and(is_no_quorum), "{tried:?}");
    assert!(!waiting.is_finished());
    must(fleet.servers[1].restart(Data::Dropped));
    must(must(must(soon(waiting).await)).release().await);
}

/// A given timeout counts, also if it equals the default of a single server.
#[tokio::test]
async fn a_timeout_in_the_url_is_the_nodes_own() {
    let fleet = Fleet::start(3);
    let network = fleet.network();
    network.proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(60)));
    let ports = network.proxies.iter().map(leasehold_testkit::Proxy::port);
    let client = must(Client::connect(url(ports)).await);
    let guard = must(soon(client.mutex("far").acquire()).await);
    must(guard.release().await);
}
