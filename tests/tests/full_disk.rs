//! A file store on a full disk: held locks are renewed, released, and handed on.
#![cfg(test)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{ClientId, HolderId, HolderInfo};
use leasehold::store::{File, Store};
use leasehold_core::{
    Action, End, Keep, Mode, Operation, Reply, Request, StoreError, StoreErrorKind, Take,
};
use leasehold_testkit::small_disk::{fill, on_a_disk_of};
use leasehold_testkit::{fresh_number, must, worker};
use tokio::runtime::Builder;

/// Far longer than any of these tests takes: no lease ends by time.
const TTL: Duration = Duration::from_secs(600);

/// How many names are held when the disk becomes full.
const HELD: u64 = 40;

/// One client on a store, without the library.
struct Client {
    store: File,
    id: ClientId,
}

impl Client {
    fn new(path: &Path) -> Self {
        Self { store: must(File::open(path)), id: ClientId(fresh_number()) }
    }

    fn holder(&self, attempt: u64) -> HolderId {
        HolderId { client: self.id, attempt }
    }

    async fn ask(&self, number: u64, action: Action) -> Result<Reply, StoreError> {
        let name = must(LockName::new(format!("name/{number}")));
        Ok(self.store.execute(Operation::On { name, action }).await?.reply)
    }

    /// The request for the name of this number, by an attempt of the same number.
    fn request(&self, number: u64) -> Request {
        let info = HolderInfo::new("h".repeat(200), 1);
        Request::new(self.holder(number), Mode::Exclusive, info)
    }

    async fn acquire(&self, number: u64, waits: bool) -> Result<Reply, StoreError> {
        let take = Take::new(self.request(number), TTL).with_waits(waits);
        self.ask(number, Action::Take(take)).await
    }

    /// Releases in such a way that the record keeps the run, and stays.
    async fn release(&self, number: u64) -> Reply {
        let end = End::new(self.request(number)).with_closes(true).with_done(TTL);
        must(self.ask(number, Action::End(end)).await)
    }

    async fn assert_renewed(&self, numbers: std::ops::Range<u64>) {
        let lease = |number| {
            let name = must(LockName::new(format!("name/{number}")));
            (name, Keep::new(self.request(number), TTL))
        };
        let renewal = Operation::Keep(numbers.map(lease).collect());
        let Reply::Many(replies) = must(self.store.execute(renewal).await).reply else {
            panic!("not many")
        };
        assert!(replies.iter().all(|reply| matches!(reply, Reply::Kept { .. })), "{replies:?}");
    }

    /// Acquires one new name after the other until the disk is full.
    async fn acquire_until_full(&self, first: u64) -> u64 {
        let mut number = first;
        loop {
            match self.acquire(number, false).await {
                Ok(Reply::Granted(_)) => number += 1,
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
                    assert!(!error.may_have_executed(), "{error}");
                    assert!(error.to_string().contains("make room"), "{error}");
                    return number;
                }
            }
        }
    }
}

/// Renews, hands on and releases on a full disk, and goes on when there is room again.
fn hold_on_a_full_disk(directory: &str) {
    worker::end_with_parent();
    let directory = Path::new(directory);
    let (path, filler) = (directory.join("locks.db"), directory.join("filler"));
    must(Builder::new_current_thread().enable_all().build()).block_on(async {
        let (holder, waiter) = (Client::new(&path), Client::new(&path));
        for number in 0..HELD {
            assert!(matches!(must(holder.acquire(number, false).await), Reply::Granted(_)));
        }
        let Reply::Queued(place) = must(waiter.acquire(0, true).await) else {
            panic!("it does not wait")
        };
        fill(&filler);
        let after = holder.acquire_until_full(HELD).await;
        println!("{} more were acquired before it was full", after - HELD);

        // More requests than fit the log.
        let again = Take::new(waiter.request(0), TTL).with_waits(true);
        let again = Action::Take(again.with_place(Some(place.sequence)));
        for _ in 0..50 {
            holder.assert_renewed(0..after).await;
            assert!(matches!(must(waiter.ask(0, again.clone()).await), Reply::Queued(_)));
        }
        assert_eq!(holder.release(0).await, Reply::Ended(true));
        assert!(matches!(must(waiter.ask(0, again).await), Reply::Granted(_)));
        // A process that comes now must also work.
        let late = Client::new(&path);
        let look = late.ask(1, Action::Look { limit: 1 }).await;
        assert!(matches!(must(look), Reply::Status(status) if status.holders.len() == 1));
        for number in 1..after {
            assert_eq!(holder.release(number).await, Reply::Ended(true), "{number}");
            waiter.assert_renewed(0..1).await;
        }

        must(fs::remove_file(&filler));
        for number in after..after + HELD {
            assert!(matches!(must(late.acquire(number, false).await), Reply::Granted(_)));
        }
        assert_eq!(waiter.release(0).await, Reply::Ended(true));
    });
}

/// A store alone on a small disk does not fill it with its own log.
fn work_on_a_small_disk(directory: &str) {
    worker::end_with_parent();
    must(Builder::new_current_thread().enable_all().build()).block_on(async {
        let client = Client::new(&Path::new(directory).join("locks.db"));
        for number in 0..3_000 {
            assert!(matches!(must(client.acquire(number % 8, false).await), Reply::Granted(_)));
            let release = Action::End(End::new(client.request(number % 8)));
            assert_eq!(must(client.ask(number % 8, release).await), Reply::Ended(true));
        }
    });
}

#[test]
#[ignore = "the jobs of the tests below, each for a separate process"]
fn job() {
    match worker::arguments().iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold", directory] => hold_on_a_full_disk(directory),
        ["work", directory] => work_on_a_small_disk(directory),
        ref other => panic!("no such job: {other:?}"),
    }
}

#[test]
fn on_a_full_disk_what_is_held_is_renewed_and_let_go_and_nothing_new_begins() {
    on_a_disk_of("4m", "hold");
}

#[test]
fn a_store_does_not_fill_a_small_disk_with_its_own_log() {
    on_a_disk_of("2m", "work");
}
