//! C: what befalls the one server.

use std::time::{Duration, Instant};

use leasehold::store::{Redis, Store};
use leasehold::{LockName, LossReason, StoreErrorKind};
use leasehold_core::{Action, Operation};
use leasehold_testkit::{Data, RedisServer, Tail};

use crate::scene::{
    LONG, NAME, PATIENCE, SHORT, Scene, breaks_exclusion_and_not_the_order, loss, soon,
};

/// C1: killed without persistence, and at once there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_a_server_that_comes_back_empty_lets_another_in_with_a_greater_token() {
    breaks_exclusion_and_not_the_order(Scene::new().await, async |scene: &mut Scene| {
        scene.server.restart(Data::Dropped).unwrap();
    })
    .await;
}

/// C1: the holder that can be told is told at once, an hour before its lease would have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_a_holder_is_told_at_once_that_the_server_came_back_empty() {
    let mut scene = Scene::new().await;
    let guard = soon(scene.far.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    scene.server.restart(Data::Dropped).unwrap();
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    assert!(scene.take().await.token() > guard.token());
}

/// C3: power fails, and the disk never got the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_grant_that_the_disk_never_got_lets_another_in_with_a_greater_token() {
    let server = RedisServer::options().append_only("everysec").start().unwrap();
    let scene = Scene::of(server).await;
    breaks_exclusion_and_not_the_order(scene, async |scene: &mut Scene| {
        scene.server.lose_power(Tail::Transactions(1)).unwrap();
    })
    .await;
}

/// C3: the disk never got the release: the lock is held by nobody until its deadline, and the next
/// one is not before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_release_that_the_disk_never_got_only_delays_the_next() {
    let server = RedisServer::options().append_only("everysec").start().unwrap();
    let mut scene = Scene::of(server).await;
    let since = Instant::now();
    let guard = soon(scene.far.mutex(NAME).ttl(SHORT).acquire()).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    scene.server.lose_power(Tail::Transactions(1)).unwrap();
    let next = soon(scene.near.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    assert!(since.elapsed() > SHORT, "it was free although the server cannot have known");
    assert!(next.token() > token);
}

/// C4: while it loads its data, a server refuses everything: not executed, and worth another try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_server_that_loads_its_data_costs_no_lease_and_grants_nothing() {
    // Two thousand keys of a millisecond each, and a look at its connections after every one.
    let options = RedisServer::options()
        .line("key-load-delay 1000")
        .line("loading-process-events-interval-bytes 1024");
    let mut scene = Scene::of(options.start().unwrap()).await;
    let guard = soon(scene.near.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    scene.server.command::<()>("DEBUG POPULATE 2000 filler 1024").unwrap();
    scene.server.command::<()>("SAVE").unwrap();
    let store = Redis::connect(&scene.server.url()).await.unwrap();
    let restarting = tokio::task::spawn_blocking(move || {
        scene.server.restart(Data::Kept).unwrap();
        scene
    });
    let refused = async {
        loop {
            let (name, action) = (LockName::new(NAME).unwrap(), Action::Inspect { limit: 1 });
            if let Err(error) = store.execute(Operation::On { name, action }).await
                && error.to_string().contains("loading")
            {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let error = soon(refused).await;
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(!error.may_have_executed(), "{error}");
    let scene = soon(restarting).await.unwrap();
    soon(guard.renew()).await.expect("the lease is still known");
    assert_eq!(scene.tokens(NAME).await, [guard.token()]);
}

/// C9: an evicting server under memory pressure deletes locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_an_evicted_lock_lets_another_in_with_a_greater_token() {
    for policy in ["volatile-ttl", "volatile-lru", "allkeys-random"] {
        let server = RedisServer::options().line(format!("maxmemory-policy {policy}"));
        let scene = Scene::of(server.start().unwrap()).await;
        let warnings = Redis::connect(&scene.server.url()).await.unwrap().warnings();
        assert!(warnings.iter().any(|text| text.contains(policy)), "{policy}: {warnings:?}");
        breaks_exclusion_and_not_the_order(scene, async |scene: &mut Scene| {
            let mut connection = scene.server.connection().unwrap();
            redis::cmd("CONFIG").arg(&["SET", "maxmemory", "4mb"]).exec(&mut connection).unwrap();
            let since = Instant::now();
            let mut number = 0;
            while redis::cmd("EXISTS").arg("lh:a").query(&mut connection).unwrap() {
                // With nothing left to evict, it is refused: then the lock was evicted before.
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

/// C11: the data are deleted, each way that there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_a_flush_lets_another_in_with_a_greater_token() {
    for command in ["FLUSHALL", "FLUSHDB ASYNC", "SWAPDB 0 1"] {
        breaks_exclusion_and_not_the_order(Scene::new().await, async |scene: &mut Scene| {
            scene.server.command::<()>(command).unwrap();
        })
        .await;
    }
}
