//! The cost of a call for its client: the locks of the keeper's table, and the readings of the
//! clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::{
    Answer, BoxFuture, ClientId, Clock, FakeClock, Instant, Operation, StoreError,
};
use tokio::task::yield_now;

use super::settle;
use crate::client::Client;
use crate::guard::Guard;
use crate::store::{Capabilities, Inbox, Memory, Store};

const TTL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default)]
struct Counted {
    clock: FakeClock,
    readings: Arc<AtomicUsize>,
}

impl Clock for Counted {
    fn now(&self) -> Instant {
        self.readings.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }

    fn wall_us(&self) -> u64 {
        self.clock.wall_us()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(at)
    }

    fn is_driven_by_caller(&self) -> bool {
        true
    }
}

/// A store that answers later, like a store that is reached over a network.
#[derive(Debug)]
struct Remote(Memory);

impl Store for Remote {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let answer = self.0.execute(operation).await;
            yield_now().await;
            answer
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.0.inbox(client)
    }
}

/// A client of such a store, and a guard of it that keeps the keeper running and is due before all
/// others.
struct Measured {
    clock: Counted,
    client: Client,
    first: Guard,
}

impl Measured {
    async fn new() -> Self {
        let clock = Counted::default();
        let store = Remote(Memory::with_clock(clock.clock.clone()));
        let client = Client::builder().store(store).clock(clock.clone()).build().await.unwrap();
        let first = client.mutex("first").ttl(TTL / 2).acquire().await.unwrap();
        settle().await;
        Self { clock, client, first }
    }

    /// The number of locks of the table, and of readings of the clock, so far.
    fn so_far(&self) -> (usize, usize) {
        (self.first.keeper().table_locks(), self.clock.readings.load(Ordering::Relaxed))
    }

    /// The locks and the readings that some work adds.
    async fn cost<T>(&self, work: impl Future<Output = T>) -> (T, (usize, usize)) {
        let (locks, readings) = self.so_far();
        let done = work.await;
        let (locks_after, readings_after) = self.so_far();
        (done, (locks_after - locks, readings_after - readings))
    }
}

#[tokio::test]
async fn an_uncontended_lock_costs_the_table_twice_and_the_clock_twice_and_its_release_less() {
    let measured = Measured::new().await;
    for _ in 0..3 {
        let (guard, cost) = measured.cost(measured.client.mutex("a").ttl(TTL).acquire()).await;
        assert_eq!(cost, (2, 2));
        let (released, cost) = measured.cost(guard.unwrap().release()).await;
        assert_eq!((released.is_ok(), cost), (true, (1, 2)));
        let (tried, cost) = measured.cost(measured.client.mutex("a").ttl(TTL).try_acquire()).await;
        assert_eq!(cost, (2, 2), "a try");
        tried.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_dropped_and_is_taken_over_costs_the_table_and_the_clock_once_each_way() {
    let measured = Measured::new().await;
    let lock = measured.client.mutex("a").ttl(TTL);
    let mut guard = lock.acquire().await.unwrap();
    for _ in 0..3 {
        let ((), cost) = measured.cost(async { drop(guard) }).await;
        assert_eq!(cost, (1, 1));
        let (again, cost) = measured.cost(lock.acquire()).await;
        assert_eq!(cost, (1, 1));
        guard = again.unwrap();
    }
}

/// The cost of renewing `count` leases: by their holder, and by the keeper once they are due.
async fn cost_of_renewals(count: usize) -> [(usize, usize); 3] {
    let measured = Measured::new().await;
    let names = (0..count).map(|number| format!("name/{number}"));
    let guard = measured.client.multi(names).ttl(TTL).acquire().await.unwrap();
    settle().await;
    let (renewed, by_holder) = measured.cost(guard.renew()).await;
    renewed.unwrap();
    let (renewed, for_another_ttl) = measured.cost(guard.renew_for(TTL)).await;
    renewed.unwrap();
    settle().await;
    let due = async {
        measured.clock.clock.advance(TTL * 2 / 5);
        settle().await;
    };
    let ((), by_keeper) = measured.cost(due).await;
    assert!(guard.validity() > TTL * 4 / 5);
    [by_holder, for_another_ttl, by_keeper]
}

#[tokio::test]
async fn many_leases_are_renewed_for_the_price_of_one() {
    assert_eq!(cost_of_renewals(50).await, cost_of_renewals(1).await);
}
