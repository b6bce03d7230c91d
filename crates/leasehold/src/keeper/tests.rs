//! A keeper at a store that does not answer, and callbacks of users at the end of a lease.

mod cost;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use leasehold_core::{
    Answer, BoxFuture, ClientId, FakeClock, LossReason, Operation, StoreError, StoreErrorKind,
};

use crate::client::Client;
use crate::store::{Capabilities, Inbox, Memory, Store};

const TTL: Duration = Duration::from_secs(30);

/// A store that answers no renewal.
#[derive(Debug)]
struct Mute(Memory);

impl Store for Mute {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        match operation {
            Operation::Keep(_) => Box::pin(std::future::pending()),
            other => self.0.execute(other),
        }
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.0.inbox(client)
    }
}

/// A store whose inboxes cannot be opened, and a value that it keeps alive.
#[derive(Debug)]
struct NoInbox(Memory, #[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Store for NoInbox {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        self.0.execute(operation)
    }

    fn inbox(&self, _: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async { Err(StoreError::new(StoreErrorKind::Unreachable, "no inbox")) })
    }
}

#[tokio::test]
async fn a_keeper_ends_with_its_client_although_its_inbox_cannot_be_opened() {
    let (clock, alive) = (FakeClock::new(), Arc::new(()));
    let store = NoInbox(Memory::with_clock(clock.clone()), Arc::clone(&alive));
    let client = Client::builder().store(store).clock(clock).build().await.unwrap();
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    settle().await;
    drop(client);
    settle().await;
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Lets every other task run until it waits for something.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// The keeper wakes when the lease has ended and its renewal has failed. It records the failure
/// first.
#[tokio::test]
async fn a_callback_that_drops_another_guard_does_not_stop_the_keeper() {
    let clock = FakeClock::new();
    clock.advance(Duration::from_secs(1_000));
    let store = Mute(Memory::with_clock(clock.clone()));
    let client = Client::builder().store(store).clock(clock.clone()).build().await.unwrap();
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    let other = client.mutex("b").ttl(TTL).acquire().await.unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |reason| {
        drop(other);
        tell.send(reason).unwrap();
    });
    settle().await;
    clock.advance(TTL / 2);
    settle().await;
    clock.advance(10 * TTL);
    settle().await;
    assert_eq!(told.try_recv(), Ok(LossReason::Expired));
    let again = client.mutex("b").ttl(TTL).acquire().await.unwrap();
    again.release().await.unwrap();
}
