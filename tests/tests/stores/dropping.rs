//! Guards that are dropped in awkward places, and one client in several runtimes: nothing is left
//! behind, nothing panics, nothing blocks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use leasehold::store::Memory;
use leasehold::{Client, Guard};
use leasehold_testkit::{RedisServer, SharedStore, must};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    must(Builder::new_current_thread().enable_all().build())
}

/// A guard of a lock whose lease lasts for half a minute, in real time.
fn guard_of(client: &Client, runtime: &Runtime) -> Guard {
    must(runtime.block_on(client.mutex("awkward").acquire()))
}

/// Another client gets the lock long before the lease would have ended.
fn is_given_back(client: &Client) {
    let limit = Duration::from_secs(10);
    let runtime = runtime();
    let lock = client.mutex("awkward");
    let guard = must(runtime.block_on(lock.acquire_within(limit)));
    must(runtime.block_on(guard.release()));
}

#[test]
fn a_guard_that_is_dropped_during_unwinding_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = guard_of(&client, &runtime);
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    is_given_back(&client);
}

#[test]
fn a_guard_that_outlives_its_runtime_keeps_its_lease_and_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    let guard = guard_of(&client, &runtime);
    drop(runtime);
    must(guard.ensure_held());
    let started = Instant::now();
    drop(guard);
    assert!(started.elapsed() < Duration::from_secs(5), "dropping does not block");
    is_given_back(&client);
}

#[test]
fn a_guard_that_outlives_its_runtime_is_renewed() {
    let client = Client::memory();
    let runtime = runtime();
    let ttl = Duration::from_secs(1);
    let guard = must(runtime.block_on(client.mutex("awkward").ttl(ttl).acquire()));
    drop(runtime);
    let mut least = guard.validity();
    while guard.validity() <= least {
        must(guard.ensure_held());
        least = guard.validity();
        std::thread::sleep(ttl / 100);
    }
}

#[test]
fn a_guard_that_is_dropped_in_a_task_of_a_runtime_that_ends_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    let (lock, (sender, receiver)) = (client.mutex("awkward"), std::sync::mpsc::channel());
    runtime.spawn(async move {
        let _guard = must(lock.acquire().await);
        must(sender.send(()));
        std::future::pending::<()>().await;
    });
    runtime.block_on(async {
        while receiver.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    is_given_back(&client);
}

#[test]
fn a_guard_that_outlives_its_client_is_given_back() {
    let store = SharedStore::new(Memory::new());
    let runtime = runtime();
    let client = Client::builder().store(store.clone());
    let client = must(runtime.block_on(client.build()));
    let guard = guard_of(&client, &runtime);
    drop(client);
    drop(guard);
    let other = must(runtime.block_on(Client::builder().store(store).build()));
    is_given_back(&other);
}

/// One client that lives as long as the process, as in many programs.
#[test]
fn one_static_client_works_in_several_runtimes_one_after_another() {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let server = must(RedisServer::start());
    let started = runtime();
    must(CLIENT.set(must(started.block_on(Client::connect(&server.patient_url())))));
    drop(started);
    let Some(client) = CLIENT.get() else { panic!("it was set") };
    let mut last = None;
    for _ in 0..3 {
        let runtime = runtime();
        let lock = client.mutex("static");
        let guard = must(runtime.block_on(lock.acquire_within(Duration::from_secs(20))));
        assert!(Some(guard.token()) > last);
        let waits = lock.clone();
        let waiting = runtime.spawn(async move { waits.acquire().await });
        runtime.block_on(tokio::task::yield_now());
        must(runtime.block_on(guard.release()));
        let guard = must(must(runtime.block_on(waiting)));
        last = Some(guard.token());
        drop(runtime);
        drop(guard);
    }
}
