//! A keeper at a store that does not answer, and callbacks of users at the end of a lease.

mod cost;

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use leasehold_core::{
    Answer, BoxFuture, ClientId, FakeClock, LossReason, Operation, StoreError, StoreErrorKind,
};

use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::client::Client;
use crate::event::Event;
use crate::keeper::Keeper;
use crate::store::{Capabilities, Inbox, Memory, Store};

const TTL: Duration = Duration::from_secs(30);

/// A store that answers no renewal, and where an inbox cannot be opened: each attempt ends with an
/// error once it is told to.
#[derive(Debug)]
struct Mute(Memory, Arc<Notify>);

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

    fn inbox(&self, _: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let error = StoreError::new(StoreErrorKind::Unreachable, "no inbox");
        Box::pin(self.1.notified().map(|()| Err(error)))
    }
}

#[tokio::test]
async fn an_inbox_that_cannot_be_opened_is_warned_of_unless_the_client_was_closed_meanwhile() {
    assert_eq!(warnings_without_an_inbox(false).await, 1);
    assert_eq!(warnings_without_an_inbox(true).await, 0);
}

/// The warnings of a client whose inbox cannot be opened. Its keeper ends with it.
async fn warnings_without_an_inbox(is_closed: bool) -> usize {
    let (clock, fail, (warn, warned)) = (FakeClock::new(), Arc::default(), mpsc::channel());
    let store = Mute(Memory::with_clock(clock.clone()), Arc::clone(&fail));
    let warn = Mutex::new(warn);
    let observer = move |event: &Event<'_>| {
        if let Event::Warning { text } = event {
            warn.lock().unwrap().send((*text).to_owned()).unwrap();
        }
    };
    let builder = Client::builder().store(store).clock(clock.clone()).observer(observer);
    let client = builder.build().await.unwrap();
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    settle().await;
    // So long a lease is described, and may be revoked.
    clock.advance(Duration::from_millis(200));
    settle().await;
    if is_closed {
        client.clone().close().await.unwrap();
    }
    fail.notify_one();
    settle().await;
    drop((guard, client));
    settle().await;
    assert_eq!(Arc::strong_count(&fail), 1);
    warned.try_iter().count()
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
    let store = Mute(Memory::with_clock(clock.clone()), Arc::default());
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

/// The keeper may find the end of a lease at the moment at which the caller reports the grant.
#[tokio::test]
async fn an_end_that_is_found_before_the_grant_was_reported_is_reported_after_it_and_once() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let keeper = Arc::new(OnceLock::<Arc<Keeper>>::new());
    let (seen, ends) = (Arc::clone(&events), Arc::clone(&keeper));
    let observer = move |event: &Event<'_>| {
        let what = match event {
            Event::Granted { lease, .. } => {
                let Some(keeper) = ends.get() else { return };
                let state = keeper.table().leases.get(lease.holder).cloned().unwrap();
                keeper.lose(&state, LossReason::Revoked);
                "granted"
            }
            Event::Lost { .. } => "lost",
            Event::Released { .. } => "released",
            _ => return,
        };
        seen.lock().unwrap().push(what);
    };
    let clock = FakeClock::new();
    let builder = Client::builder().store(Memory::with_clock(clock.clone())).clock(clock);
    let client = builder.observer(observer).build().await.unwrap();
    let other = client.mutex("b").acquire().await.unwrap();
    keeper.set(Arc::clone(other.keeper())).unwrap();
    drop(client.mutex("a").acquire().await.unwrap());
    assert_eq!(*events.lock().unwrap(), ["granted", "lost"]);
}
