//! Watching stores in memory, on a clock that stands still until it is moved.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::Client;
use leasehold::admin::ClientId;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::protocol::{Answer, BoxFuture, Operation, Reply};
use leasehold::store::{Capabilities, Inbox, Memory, Store};
use leasehold::time::FakeClock;
use tokio::task::yield_now;

use super::super::change::EventKind;
use super::super::picture::Availability;
use super::*;

const STEP: Duration = Duration::from_millis(50);

/// A store in memory that notes what it is asked, and can be away.
#[derive(Clone, Debug)]
struct Watched {
    memory: Memory,
    clock: FakeClock,
    is_away: Arc<AtomicBool>,
    /// When, and how many keys that costs.
    asked: Arc<Mutex<Vec<(Duration, u32)>>>,
    /// The names that were looked at.
    looked_at: Arc<Mutex<Vec<LockName>>>,
}

impl Watched {
    fn new(clock: &FakeClock) -> Self {
        Self {
            memory: Memory::with_clock(clock.clone()),
            clock: clock.clone(),
            is_away: Arc::default(),
            asked: Arc::default(),
            looked_at: Arc::default(),
        }
    }

    async fn client(&self) -> Client {
        Client::builder().store(self.clone()).clock(self.clock.clone()).build().await.unwrap()
    }

    /// A client whose requests are not noted: of those who hold, not of the one who watches.
    async fn holder(&self) -> Client {
        let memory = self.memory.clone();
        Client::builder().store(memory).clock(self.clock.clone()).build().await.unwrap()
    }

    fn asked(&self) -> Vec<(Duration, u32)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Store for Watched {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        if self.is_away.load(Ordering::Relaxed) {
            let away = StoreError::new(StoreErrorKind::Unreachable, "it is away");
            return Box::pin(async { Err(away) });
        }
        if let Operation::On { name, .. } = &operation {
            self.looked_at.lock().unwrap().push(name.clone());
        }
        let (is_look, at) = (operation.is_read_only(), self.clock.now().since_origin());
        Box::pin(async move {
            let answer = self.memory.execute(operation).await?;
            if is_look {
                let keys = if let Reply::Page(page) = &answer.reply { page.looked_at } else { 1 };
                self.asked.lock().unwrap().push((at, keys));
            }
            Ok(answer)
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.memory.inbox(client)
    }
}

/// Watches for so long, while `meanwhile` goes on; gives the updates.
async fn watch(
    clock: &FakeClock,
    store: &Watched,
    watcher: &Watcher,
    span: Duration,
) -> Vec<Update> {
    let (updates, client) = (RefCell::default(), store.client().await);
    let admin = client.admin();
    let passing = async {
        for _ in 0..span.as_millis() / STEP.as_millis() {
            clock.advance(STEP);
            for _ in 0..50 {
                yield_now().await;
            }
        }
    };
    let tell = |new| {
        let updates: &RefCell<Vec<Update>> = &updates;
        updates.borrow_mut().push(new);
    };
    tokio::select! {
        () = passing => {}
        never = watcher.run(&admin, tell) => match never {},
    }
    updates.into_inner()
}

fn kinds(updates: &[Update]) -> Vec<EventKind> {
    let changes = updates.iter().filter_map(|new| match new {
        Update::Lock(change) => Some(&change.events),
        Update::Store => None,
    });
    changes.flatten().map(|event| event.kind).collect()
}

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

#[tokio::test]
async fn who_holds_waits_and_follows_is_seen_within_seconds() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(2000, Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let first = client.mutex("x").label("first").acquire().await.unwrap();
    let lock = store.holder().await.mutex("x");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    let updates = watch(&clock, &store, &watcher, SECONDS(5)).await;
    assert!(kinds(&updates).starts_with(&[EventKind::Granted]), "{updates:?}");
    let waiting = watcher.picture().row(&LockName::new("x").unwrap()).unwrap().status.waiting;
    assert_eq!(waiting, 1);
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    let updates = watch(&clock, &store, &watcher, SECONDS(5)).await;
    assert_eq!(kinds(&updates), [EventKind::Released, EventKind::HandedOver]);
    second.release().await.unwrap();
    let updates = watch(&clock, &store, &watcher, SECONDS(5)).await;
    assert_eq!(kinds(&updates), [EventKind::Released]);
    assert_eq!(watcher.picture().totals().held, 0);
}

#[tokio::test]
async fn the_budget_is_kept_in_every_second_and_every_name_is_seen_all_the_same() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(100, Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let mut held = Vec::new();
    for number in 0..300 {
        let lock = client.mutex(format!("n{number}")).ttl(SECONDS(3600));
        held.push(lock.acquire().await.unwrap());
    }
    watch(&clock, &store, &watcher, SECONDS(40)).await;
    assert_eq!(watcher.picture().totals().held, 300);
    let asked = store.asked();
    for (begin, _) in &asked {
        let within = |at: &Duration| (*begin..*begin + SECONDS(1)).contains(at);
        let keys: u32 = asked.iter().filter(|(at, _)| within(at)).map(|(_, keys)| keys).sum();
        assert!(keys <= 100, "{keys} keys in the second from {begin:?} on");
    }
    assert!(watcher.picture().round_took_ms().is_some());
}

#[tokio::test]
async fn a_store_that_goes_away_is_told_and_watched_again_when_it_is_back() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(2000, Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let held = client.mutex("x").acquire().await.unwrap();
    let updates = watch(&clock, &store, &watcher, SECONDS(3)).await;
    assert!(matches!(updates.first(), Some(Update::Store)), "{updates:?}");
    assert_eq!(*watcher.picture().store(), Availability::There);
    store.is_away.store(true, Ordering::Relaxed);
    let updates = watch(&clock, &store, &watcher, SECONDS(3)).await;
    assert!(matches!(updates[..], [Update::Store]), "{updates:?}");
    let Availability::Away { why, .. } = watcher.picture().store().clone() else { panic!() };
    assert!(why.contains("it is away"), "{why}");
    assert_eq!(watcher.picture().totals().held, 1, "what was known stays known");
    store.is_away.store(false, Ordering::Relaxed);
    watch(&clock, &store, &watcher, SECONDS(3)).await;
    assert_eq!(*watcher.picture().store(), Availability::There);
    drop(held);
}

#[tokio::test]
async fn a_name_that_is_asked_for_is_looked_at_at_once_and_not_again_within_a_second() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(2000, Timekeeper::new(clock.clone()));
    let name = LockName::new("x").unwrap();
    watch(&clock, &store, &watcher, SECONDS(1)).await;
    let holder = store.holder().await;
    let held = holder.mutex("x").acquire().await.unwrap();
    let client = store.client().await;
    let (admin, looking) = (client.admin(), async {
        for _ in 0..3 {
            assert_eq!(watcher.look_at(&name).await.status.holders.len(), 1);
        }
    });
    tokio::select! {
        () = looking => {}
        never = watcher.run(&admin, |_| {}) => match never {},
    }
    assert_eq!(*store.looked_at.lock().unwrap(), [name]);
    drop(held);
}
