//! C8 to C16: faults of the data of the one server, and of the rights to use them.

use std::time::{Duration, Instant};

use leasehold::error::StoreErrorKind;
use leasehold::store::{Redis, Store};
use leasehold::{Error, LossReason};
use leasehold_core::model::Times;
use leasehold_testkit::harness::acquiring;
use leasehold_testkit::{RedisServer, options_of};

use crate::contend::{Hurting, Memory, connect_all, contend, contend_during};
use crate::scene::{
    LONG, NAME, PATIENCE, Scene, breaks_exclusion_and_not_the_order, connect, loss, soon,
};

#[track_caller]
fn kind<T: std::fmt::Debug>(refused: Result<T, Error>) -> StoreErrorKind {
    let Err(Error::Store(error)) = &refused else { panic!("no error of the store: {refused:?}") };
    error.kind()
}

/// C8: no memory is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c8_a_full_server_refuses_new_locks_and_blocks_no_release_and_no_renewal() {
    let scene = Scene::new().await;
    let guard = scene.take().await;
    scene.server.command::<()>("CONFIG SET maxmemory 1").unwrap();
    let lock = scene.near.mutex("b");
    assert_eq!(kind(lock.acquire().await), StoreErrorKind::Full);
    assert_eq!(kind(lock.acquire_within(PATIENCE).await), StoreErrorKind::Full);
    guard.renew().await.unwrap();
    guard.release().await.unwrap();
    scene.server.command::<()>("CONFIG SET maxmemory 0").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// C9: an evicting server under memory pressure deletes locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_an_evicted_lock_lets_another_in_with_a_greater_token() {
    for policy in ["volatile-ttl", "volatile-lru", "allkeys-random"] {
        let server = RedisServer::options().line(format!("maxmemory-policy {policy}"));
        let scene = Scene::of(server.start().unwrap()).await;
        let warnings = Redis::open(options_of(&scene.server.url())).await.unwrap().warnings();
        assert!(warnings.iter().any(|text| text.contains(policy)), "{policy}: {warnings:?}");
        breaks_exclusion_and_not_the_order(scene, async |scene: &mut Scene| {
            let mut connection = scene.server.connection().unwrap();
            redis::cmd("CONFIG").arg(&["SET", "maxmemory", "4mb"]).exec(&mut connection).unwrap();
            let since = Instant::now();
            let mut number = 0;
            while redis::cmd("EXISTS").arg("lh:{a}").query(&mut connection).unwrap() {
                // A write is refused once nothing is left to evict: then the lock is evicted.
                let filler = vec![b'x'; 10_000];
                let _ = redis::cmd("SET").arg(number).arg(filler).exec(&mut connection);
                number += 1;
                assert!(since.elapsed() < PATIENCE, "{policy}: it is never evicted");
            }
            redis::cmd("CONFIG").arg(&["SET", "maxmemory", "0"]).exec(&mut connection).unwrap();
        })
        .await;
    }
}

/// C11: the data are deleted, in each possible way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_a_flush_lets_another_in_with_a_greater_token() {
    for command in ["FLUSHALL", "FLUSHDB ASYNC", "SWAPDB 0 1"] {
        breaks_exclusion_and_not_the_order(Scene::new().await, async |scene: &mut Scene| {
            scene.server.command::<()>(command).unwrap();
        })
        .await;
    }
}

/// C11, C12: holder and waiter find out by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_a_flush_or_a_deletion_costs_the_lease_and_the_waiter_gets_in() {
    for command in ["FLUSHALL", "DEL lh:{a}"] {
        // The holder asks after a third of the ttl.
        let ttl = Duration::from_secs(9);
        let scene = Scene::new().await;
        let guard = soon(scene.far.mutex(NAME).ttl(ttl).acquire()).await.unwrap();
        let next = scene.wait().await;
        scene.server.command::<()>(command).unwrap();
        assert_eq!(loss(&guard).await, LossReason::Vanished, "{command}");
        assert!(matches!(guard.ensure_held(), Err(Error::Lost { .. })));
        let next = next.await;
        assert!(next.token() > guard.token(), "{command}");
        assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
        next.renew().await.expect("the late release touches nobody");
    }
}

/// C14: the scripts are deleted, between any two calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_flushed_scripts_are_not_noticed() {
    let server = RedisServer::start().unwrap();
    let clients = connect_all(&server.url(), 4).await;
    let flushing = Hurting::by(&server, Duration::from_millis(20), "SCRIPT FLUSH");
    contend_during(flushing, &clients, 40, Memory::Kept).await;
}

/// C16: a lease that could not be released while a right was missing is released once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_what_a_denied_user_dropped_is_gone_once_it_has_its_rights_again() {
    let scene = Scene::of(RedisServer::options().holder().start().unwrap()).await;
    let client = connect(&scene.server.holder_url()).await;
    let held = client.mutex("b").ttl(LONG).acquire().await.unwrap();
    let guard = scene.take().await;
    let waiting = acquiring(client.mutex(NAME).ttl(LONG));
    scene.queued(1).await;
    scene.server.command::<()>("ACL SETUSER holder -evalsha").unwrap();
    assert_eq!(kind(soon(waiting).await.unwrap()), StoreErrorKind::Denied);
    assert_eq!(kind(held.release().await), StoreErrorKind::Denied);
    scene.server.command::<()>("ACL SETUSER holder +evalsha").unwrap();
    scene.queued(0).await;
    soon(scene.near.mutex("b").acquire()).await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    client.close().await.unwrap();
}

/// C16: closing reports the store's refusal, and does not wait for the right to come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_a_denied_user_that_closes_is_told_so_and_waits_for_no_right() {
    let scene = Scene::of(RedisServer::options().holder().start().unwrap()).await;
    let client = connect(&scene.server.holder_url()).await;
    let held = client.mutex("b").ttl(LONG).acquire().await.unwrap();
    scene.server.command::<()>("ACL SETUSER holder -evalsha").unwrap();
    assert_eq!(kind(held.release().await), StoreErrorKind::Denied);
    assert_eq!(kind(client.close().await), StoreErrorKind::Denied);
}

/// K5: the documented rights suffice, and no command needs more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k5_the_least_privileged_user_needs_nothing_more_under_contention() {
    let server = RedisServer::options().holder().start().unwrap();
    contend(&connect_all(&server.holder_url(), 4).await, 20).await;
    let client = connect(&server.holder_url()).await;
    let reader = client.rwlock("r").read().acquire().await.unwrap();
    let permit = client.semaphore("s", 3).permits(2).acquire().await.unwrap();
    assert_eq!(client.admin().inspect("r").await.unwrap().holders.len(), 1);
    reader.release().await.unwrap();
    permit.release().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(server.acl_log().unwrap().len(), 0, "{:?}", server.acl_log());
}

/// Of names that nobody uses any more, only the counter of all tokens is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_names_that_were_released() {
    let server = RedisServer::options().own_clock().start().unwrap();
    let clients = connect_all(&server.patient_url(), 2).await;
    contend(&clients, 10).await;
    // An attempt that has ended is remembered for a while.
    server.set_clock(2.0 * Times::USUAL.closed_ms as f64 / 1_000.0, 1.0).unwrap();
    let since = Instant::now();
    loop {
        let mut left: Vec<String> = server.command("KEYS *").unwrap();
        left.retain(|key| key != "lh:%token");
        if left.is_empty() {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{left:?} are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
