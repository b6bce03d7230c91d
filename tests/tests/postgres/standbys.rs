//! Standbys that take over, with the last grants and without them, and primaries that are left
//! behind. The letters are those of GUARANTEES.md.

use leasehold::error::StoreErrorKind;
use leasehold::store::Level;
use leasehold::{Client, Error, Guard};
use leasehold_testkit::{PgBouncer, Postgres, PostgresPair, must};

use crate::doctor::Visit;
use crate::faults::{NAME, TTL, assert_still_held, fence, held, is_taken, server};
use crate::quarantine::{assert_quarantined, tried};
use crate::{installed, set, until};

/// Takes a lease that no standby learns of, and promotes the standby. Returns the URL of both, the
/// new primary, and the old one, which has died.
async fn forget_a_grant(options: &str) -> Option<(Guard, String, [Postgres; 2])> {
    let mut primary = server()?;
    let client = Client::connect(&primary.url()).await.unwrap();
    client.mutex(NAME).ttl(TTL).acquire().await.unwrap().release().await.unwrap();
    let standby = must(primary.standby());
    set(&standby, "primary_conninfo", "").await;
    until(&standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver").await;
    let url = format!("{}&{options}", primary.url_with(&standby));
    let holder = Client::connect(&url).await.unwrap();
    let forgotten = held(&holder).await;
    primary.kill9().unwrap();
    must(standby.query("SELECT pg_promote()"));
    Some((forgotten, url, [standby, primary]))
}

/// The URL for a standby that has all grants: there is nothing to wait for.
fn without_quarantine(url: &str) -> String {
    format!("{url}&quarantine=off")
}

#[tokio::test]
async fn p2_after_a_promotion_that_forgot_a_grant_its_holder_goes_on_and_nobody_else_is_let_in() {
    let Some((guard, url, [new, _old])) = forget_a_grant("quarantine=on").await else { return };
    let other = Client::connect(&url).await.unwrap();
    assert_quarantined(other.mutex(NAME).try_acquire().await);
    assert_quarantined(other.mutex("another").try_acquire().await);
    assert_still_held(&guard).await;
    assert_eq!(fence(&new, &guard).await, Ok(()));
    let left = "SELECT grants_from_us > leasehold.clock_4() + 90000000 FROM leasehold.boot";
    until(&new, left).await; // as long as the lease, which is longer than `on`
    assert!(other.admin().end_quarantine().await.unwrap());
    assert!(is_taken(&other).await, "what was taken back is held");
    assert!(other.mutex("another").try_acquire().await.unwrap().is_some());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn p2_a_quarantine_goes_on_behind_a_crash() {
    let Some((_it, url, [mut new, _old])) = forget_a_grant("quarantine=on").await else { return };
    let other = Client::connect(&url).await.unwrap();
    assert_quarantined(other.mutex("another").try_acquire().await);
    new.kill9().unwrap();
    new.restart().unwrap();
    assert_quarantined(tried(&other, "another").await);
}

#[tokio::test]
async fn p2_without_a_quarantine_another_is_let_in_with_a_greater_token_and_one_of_them_writes() {
    let Some((lost, url, [new, _old])) = forget_a_grant("quarantine=off").await else { return };
    let other = Client::connect(&url).await.unwrap();
    let next = other.mutex(NAME).ttl(TTL).acquire().await.unwrap();
    assert!(next.token() > lost.token(), "two hold, and tokens grow");
    assert_eq!(fence(&new, &next).await, Ok(()));
    let refused = fence(&new, &lost).await.unwrap_err();
    assert_eq!(refused, leasehold::fence::postgres::OVERTAKEN, "and only one of them writes");
    assert!(matches!(lost.renew().await, Err(Error::Lost { .. })));
}

#[tokio::test]
async fn p3_an_old_primary_whose_synchronous_standby_was_promoted_grants_nothing() {
    let Some(primary) = server() else { return };
    let client = Client::connect(&without_quarantine(&primary.url())).await.unwrap();
    let standby = must(primary.standby());
    set(&primary, "synchronous_standby_names", "*").await;
    let synchronous = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
    until(&primary, synchronous).await;
    let guard = held(&client).await;
    Visit::to(&primary.url()).await.assert_found(Level::Ok, "replicas", "waits for: 1");
    must(standby.query("SELECT pg_promote()"));
    let at_the_new = Client::connect(&without_quarantine(&standby.url())).await.unwrap();
    assert!(is_taken(&at_the_new).await, "it has what the old one has granted");
    let old = without_quarantine(&primary.url()).replace("timeout=20s&", "timeout=1s&");
    let at_the_old = Client::connect(&old).await.unwrap();
    let refused = at_the_old.mutex("another").try_acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Store(_) | Error::Indeterminate { .. }), "{refused}");
    let free = at_the_new.mutex("another").try_acquire().await.unwrap();
    assert!(free.is_some(), "the new one grants it");
    drop(guard);
}

#[tokio::test]
async fn p11_a_standby_is_passed_over_and_named_and_the_one_that_is_promoted_is_found() {
    let Some(mut primary) = server() else { return };
    let client = Client::connect(&primary.url()).await.unwrap();
    let guard = held(&client).await;
    let standby = must(primary.standby());
    let Error::Store(alone) = Client::connect(&standby.url()).await.unwrap_err() else { panic!() };
    assert_eq!(alone.kind(), StoreErrorKind::Unreachable);
    assert!(alone.to_string().contains("it is a standby"), "{alone}");
    // The standby is named first.
    let url = without_quarantine(&standby.url_with(&primary));
    let other = Client::connect(&url).await.unwrap();
    assert!(is_taken(&other).await);
    Visit::to(&url).await.assert_found(Level::Warning, "replicas", "leave quarantine=off out");
    Visit::to(&primary.url()).await.assert_found(Level::Ok, "replicas", "standbys: 1");
    let position = must(primary.query("SELECT pg_current_wal_flush_lsn()"));
    let behind = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", position.trim());
    until(&standby, &behind).await;
    primary.kill9().unwrap();
    must(standby.query("SELECT pg_promote()"));
    assert!(is_taken(&other).await, "the one that was promoted has the lease");
    assert_eq!(fence(&standby, &guard).await, Ok(()));
}

#[tokio::test]
async fn p11_a_primary_that_comes_back_as_a_standby_behind_a_pooler_is_left() {
    let Some(mut pair) = installed("PostgreSQL", must(PostgresPair::start())) else { return };
    let pooler = |server| installed("PgBouncer", must(PgBouncer::start(server, 4)));
    let (Some(first), Some(second)) = (pooler(pair.primary()), pooler(pair.standby())) else {
        return;
    };
    let url = without_quarantine(&first.url_with(&second));
    let client = Client::connect(&url).await.unwrap();
    let looks = Client::connect(&url).await.unwrap();
    let guard = held(&client).await;
    let holders = async || {
        let status = looks.admin().inspect(NAME).await;
        status.map(|status| status.holders.len())
    };
    assert_eq!(holders().await.unwrap(), 1);
    must(pair.fail_over());
    must(pair.heal());
    // The poolers have kept the sessions of their clients.
    assert_still_held(&guard).await;
    must(pair.standby().query("SELECT pg_wal_replay_pause()"));
    guard.release().await.unwrap();
    let seen = loop {
        match holders().await {
            Ok(seen) => break seen,
            Err(Error::Store(error)) if error.kind().is_outage() => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(seen, 0, "the old primary would show what was so once");
}
