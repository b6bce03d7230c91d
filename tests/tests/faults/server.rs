//! C1 to C5: faults of the process of the one server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::blocking::wait;
use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::store::{Redis, Store};
use leasehold::{Client, Error, LockName, LossReason};
use leasehold_core::{Action, Operation};
use leasehold_testkit::{Data, RedisServer, must, options_of};

use crate::contend::{Hurting, Memory, connect_all, contend_during};
use crate::scene::{
    LONG, NAME, PATIENCE, SHORT, Scene, breaks_exclusion_and_not_the_order, connect, loss, soon,
};

/// C1: the server is killed without persistence, and is back immediately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_a_server_that_comes_back_empty_lets_another_in_with_a_greater_token() {
    breaks_exclusion_and_not_the_order(Scene::new().await, async |scene: &mut Scene| {
        scene.server.restart(Data::Dropped).unwrap();
    })
    .await;
}

/// C1: a holder that can be told is told immediately, an hour before its lease would have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_a_holder_is_told_at_once_that_the_server_came_back_empty() {
    let mut scene = Scene::new().await;
    let guard = soon(scene.far.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    scene.server.restart(Data::Dropped).unwrap();
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    assert!(scene.take().await.token() > guard.token());
}

/// C3: a power loss; the disk never got the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_grant_that_the_disk_never_got_lets_another_in_with_a_greater_token() {
    let server = RedisServer::options().append_only("no").start().unwrap();
    let scene = Scene::of(server).await;
    breaks_exclusion_and_not_the_order(scene, async |scene: &mut Scene| {
        scene.server.lose_power(1).unwrap();
    })
    .await;
}

/// C3: the disk never got the release. Nobody holds the lock until its deadline, and the next
/// holder has to wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_release_that_the_disk_never_got_only_delays_the_next() {
    let server = RedisServer::options().append_only("no").start().unwrap();
    let mut scene = Scene::of(server).await;
    let since = Instant::now();
    let guard = soon(scene.far.mutex(NAME).ttl(SHORT).acquire()).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    scene.server.lose_power(1).unwrap();
    let next = soon(scene.near.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    assert!(since.elapsed() > SHORT, "it was free although the server cannot have known");
    assert!(next.token() > token);
}

/// C4: while it loads its data, a server refuses everything: not executed, but worth another try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_server_that_loads_its_data_costs_no_lease_and_grants_nothing() {
    // Two thousand keys of a millisecond each, and a check of its connections after every key.
    let options = RedisServer::options()
        .line("key-load-delay 1000")
        .line("loading-process-events-interval-bytes 1024");
    let mut scene = Scene::of(options.start().unwrap()).await;
    let guard = soon(scene.near.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    assert_eq!(scene.tokens(NAME).await, [guard.token()], "the snapshot has it");
    scene.server.command::<()>("DEBUG POPULATE 2000 filler 1024").unwrap();
    scene.server.command::<()>("SAVE").unwrap();
    let store = Redis::open(options_of(&scene.server.url())).await.unwrap();
    let restarting = tokio::task::spawn_blocking(move || {
        scene.server.restart(Data::Kept).unwrap();
        scene
    });
    let refused = async {
        loop {
            let (name, action) = (LockName::new(NAME).unwrap(), Action::Look { limit: 1 });
            if let Err(error) = store.execute(Operation::On { name, action }).await
                && error.to_string().contains("loading")
            {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let error = soon(refused).await;
    assert_eq!((error.kind(), error.may_have_executed()), (StoreErrorKind::Unreachable, false));
    let scene = soon(restarting).await.unwrap();
    soon(guard.renew()).await.expect("the lease is still known");
    assert_eq!(scene.tokens(NAME).await, [guard.token()]);
}

/// C2: the server is killed, with all acknowledged writes on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_a_restart_with_an_append_only_file_costs_no_lease() {
    let server = RedisServer::options().append_only("always").start().unwrap();
    let mut scene = Scene::of(server).await;
    // Otherwise the client renews the lease as soon as it has connected again.
    let lock = scene.near.mutex(NAME).ttl(LONG).renewal(Renewal::Off);
    let guard = soon(lock.acquire()).await.unwrap();
    let waits = scene.far.mutex(NAME).ttl(LONG);
    let waiting = tokio::spawn(async move { waits.acquire().await });
    scene.queued(1).await;
    let left = scene.status(NAME).await.holders[0].ttl_left;
    scene.server.restart(Data::Kept).unwrap();
    let status = scene.status(NAME).await;
    assert!(status.holders[0].ttl_left < left, "the deadline is the one that it was");
    guard.renew().await.expect("the lease is still known");
    assert!(guard.is_held() && !waiting.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
}

/// C5: the server is stopped for longer than a lease; later it executes the waiting requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_a_server_that_hangs_for_two_leases_costs_the_lease_in_time_and_no_waiter() {
    // Long enough that the lease does not end before the waiter has joined, on a busy machine.
    let ttl = 2 * SHORT;
    let scene = Scene::new().await;
    let guard = soon(scene.far.mutex(NAME).ttl(ttl).acquire()).await.unwrap();
    let next = scene.wait().await;
    let since = Instant::now();
    scene.server.stop().unwrap();
    assert_eq!(loss(&guard).await, LossReason::Expired);
    tokio::time::sleep((ttl * 2).saturating_sub(since.elapsed())).await;
    scene.server.cont().unwrap();
    let next = next.await;
    assert!(next.token() > guard.token());
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    next.renew().await.expect("what came late touches nobody");
}

async fn contend_during_restarts(data: Data, memory: Memory) {
    let server = RedisServer::options().append_only("always").start().unwrap();
    let clients = connect_all(&server.url(), 4).await;
    let server = Arc::new(Mutex::new(server));
    let restarting = Hurting::every(Duration::from_millis(300), {
        let server = Arc::clone(&server);
        move || server.lock().unwrap().restart(data).unwrap()
    });
    contend_during(restarting, &clients, 20, memory).await;
}

/// C1: again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_restarts_without_data_leave_nobody_behind_under_contention() {
    contend_during_restarts(Data::Dropped, Memory::Lost).await;
}

/// C2: again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_restarts_with_an_append_only_file_leave_nobody_behind_under_contention() {
    contend_during_restarts(Data::Kept, Memory::Kept).await;
}

/// C8: while the server refuses all writes because it could not save, a guard is dropped. It is
/// released once the server accepts writes again, and waiters are told immediately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c8_what_a_server_that_cannot_save_did_not_let_go_is_let_go_later() {
    // Without a time to save, nothing is refused.
    let server = RedisServer::options().line("save 3600 1").start().unwrap();
    let scene = Scene::of(server).await;
    let guard = soon(scene.far.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    let directory = scene.server.socket().parent().unwrap().join("dump.rdb");
    std::fs::create_dir(directory).unwrap();
    scene.server.command::<()>("BGSAVE").unwrap();
    let since = Instant::now();
    while !scene.server.info("persistence").unwrap().contains("rdb_last_bgsave_status:err") {
        assert!(since.elapsed() < PATIENCE, "the snapshot never fails");
    }
    let outcome = soon(scene.near.mutex("another").acquire()).await;
    let Err(Error::Store(error)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    drop(guard);
    // The acquire, the release, and the release again.
    while scene.server.number("errorstats", "errorstat_MISCONF:count=").unwrap() < 3 {
        assert!(since.elapsed() < PATIENCE, "it was given up at the first refusal");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    scene.server.command::<()>("CONFIG SET stop-writes-on-bgsave-error no").unwrap();
    let next = soon(scene.near.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    next.release().await.unwrap();
}

/// C16: a right that a script finds missing half-way is an answer, not an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_a_right_that_a_script_lacks_half_way_is_said_at_once() {
    for right in ["+incrby ", "+time "] {
        let rights = Redis::HOLDER_RIGHTS.replace(right, "");
        let options = RedisServer::options().user(&format!("poor on >pw {rights}"));
        let server = options.start().unwrap();
        let client = connect(&server.patient_url_as("poor", "pw")).await;
        for outcome in [
            soon(client.mutex("a").acquire()).await.map(Some),
            soon(client.mutex("b").acquire_within(LONG)).await.map(Some),
            soon(client.mutex("c").try_acquire()).await,
        ] {
            let Err(Error::Store(error)) = &outcome else { panic!("{outcome:?}") };
            assert_eq!(error.kind(), StoreErrorKind::Denied, "{right}: {error}");
            assert!(error.to_string().contains("lacks a right"), "{error}");
        }
    }
}

/// C16: a user whose keys may not be made to end writes none that would stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_without_the_right_to_let_keys_end_a_user_leaves_none() {
    let rights = Redis::HOLDER_RIGHTS.replace("+pexpire ", "");
    let server = RedisServer::options().user(&format!("poor on >pw {rights}")).start().unwrap();
    let near = connect(&server.patient_url()).await;
    let poor = connect(&server.patient_url_as("poor", "pw")).await;
    let held = near.mutex("a").ttl(LONG).acquire().await.unwrap();
    soon(poor.mutex("a").acquire()).await.unwrap_err();
    soon(poor.rwlock("b").read().acquire()).await.unwrap_err();
    held.release().await.unwrap();
    drop(poor.close().await);
    let keys: Vec<String> = server.command("KEYS *").unwrap();
    assert_eq!(keys, ["lh:%token"]);
}

/// C5: between two calls of a thread, nobody reads the sockets.
#[test]
fn c5_a_thread_whose_idle_connections_were_closed_is_answered_by_its_next_call() {
    let server = must(RedisServer::start());
    let client = wait(Client::connect(server.url())).unwrap();
    let mut other = must(server.connection());
    let name: LockName = NAME.parse().unwrap();
    for _ in 0..3 {
        must(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut other));
        // The server closes them before it reads the next command.
        must(redis::cmd("PING").exec(&mut other));
        wait(client.admin().inspect(&name)).unwrap();
    }
}
