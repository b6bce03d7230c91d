//! Blocking waits that another thread ends.

use std::thread;

use leasehold::blocking::{Cancel, Client};
use leasehold::store::{Memory, Store};
use leasehold::{Error, LockName, Result};
use leasehold_testkit::harness::{PATIENCE, until_so};
use leasehold_testkit::{RedisServer, SharedStore, must};

fn client(store: impl Store) -> Client {
    must(Client::builder().store(store).build())
}

fn until_so_many_wait(client: &Client, count: u32) {
    let name = must(LockName::new("a"));
    until_so("as many wait", || must(client.admin().inspect(&name)).waiting == count);
}

/// The error of a call that waits while another client holds, and is then cancelled.
fn cancelled<T: Send>(holder: &Client, wait: impl FnOnce(&Cancel) -> Result<T> + Send) {
    let cancel = Cancel::new();
    let guard = must(holder.mutex("a").acquire());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&cancel).err());
        until_so_many_wait(holder, 1);
        assert!(!cancel.is_cancelled());
        cancel.clone().cancel();
        let ended = must(waiting.join());
        assert!(matches!(ended, Some(Error::Cancelled)), "{ended:?}");
    });
    until_so_many_wait(holder, 0);
    must(guard.release());
}

/// The place is gone long before the store would take its client for dead; the client lives on.
fn ends_waits(holder: &Client, waiter: &Client) {
    let lock = waiter.mutex("a");
    cancelled(holder, |cancel| lock.clone().cancelled_by(cancel).acquire());
    cancelled(holder, |cancel| lock.clone().cancelled_by(cancel).acquire_within(10 * PATIENCE));
    cancelled(holder, |cancel| waiter.multi(["0", "a"]).cancelled_by(cancel).acquire());
    cancelled(holder, |cancel| waiter.election("a").cancelled_by(cancel).campaign("me"));
    let cancel = Cancel::new();
    let cancellable = lock.clone().cancelled_by(&cancel);
    let guard = must(cancellable.acquire());
    cancel.cancel();
    must(guard.ensure_held());
    must(guard.release());
    assert!(matches!(cancellable.try_acquire(), Err(Error::Cancelled)), "it stays cancelled");
    must(must(waiter.multi(["0", "a"]).acquire_within(PATIENCE)).release());
}

#[test]
fn a_blocking_wait_in_memory_is_cancelled_and_leaves_the_queue() {
    let store = SharedStore::new(Memory::new());
    ends_waits(&client(store.clone()), &client(store));
}

#[test]
fn a_blocking_wait_at_a_server_is_cancelled_and_leaves_the_queue() {
    let server = must(RedisServer::start());
    let connect = || must(Client::connect(server.patient_url()));
    ends_waits(&connect(), &connect());
}
