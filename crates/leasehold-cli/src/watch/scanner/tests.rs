//! Tests of watching stores in memory, on a clock that stands still until a test moves it.

use leasehold::error::StoreError;
use leasehold::store::protocol::{Answer, BoxFuture, Operation, Reply};
use leasehold::store::{Memory, Store};
use leasehold::time::FakeClock;
use leasehold::{Client, LockName};
use tokio::task::yield_now;

use super::*;

const STEP: Duration = Duration::from_millis(50);

/// A store in memory that notes its requests.
#[derive(Clone, Debug)]
struct Watched {
    memory: Memory,
    clock: FakeClock,
    /// The time of each request, and the number of keys that it costs.
    asked: Arc<Mutex<Vec<(Duration, u32)>>>,
    /// The number of keys that each page cost.
    pages: Arc<Mutex<Vec<u32>>>,
}

impl Watched {
    fn new(clock: &FakeClock) -> Self {
        Self {
            memory: Memory::with_clock(clock.clone()),
            clock: clock.clone(),
            asked: Arc::default(),
            pages: Arc::default(),
        }
    }

    async fn client(&self) -> Client {
        Client::builder().store(self.clone()).clock(self.clock.clone()).build().await.unwrap()
    }

    /// A client for holders, whose requests are not noted, because they are not those of the
    /// watcher.
    async fn holder(&self) -> Client {
        let memory = self.memory.clone();
        Client::builder().store(memory).clock(self.clock.clone()).build().await.unwrap()
    }

    fn asked(&self) -> Vec<(Duration, u32)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Store for Watched {
    leasehold_testkit::passes_on!(memory: capabilities, inbox);

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let (is_look, at) = (operation.is_read_only(), self.clock.now().since_origin());
        Box::pin(async move {
            let answer = self.memory.execute(operation).await?;
            if is_look {
                let page = if let Reply::Page(page) = &answer.reply { Some(page) } else { None };
                self.pages.lock().unwrap().extend(page.map(|page| page.scanned));
                let keys = page.map_or(1, |page| page.scanned);
                self.asked.lock().unwrap().push((at, keys));
            }
            Ok(answer)
        })
    }
}

/// Watches for a span.
async fn watch(clock: &FakeClock, store: &Watched, watcher: &Watcher, span: Duration) {
    watch_by(STEP, clock, store, watcher, span).await;
}

/// The same, on a clock that moves in steps of this length.
async fn watch_by(
    step: Duration,
    clock: &FakeClock,
    store: &Watched,
    watcher: &Watcher,
    span: Duration,
) {
    let client = store.client().await;
    let admin = client.admin();
    let passing = async {
        for _ in 0..span.as_millis() / step.as_millis() {
            clock.advance(step);
            for _ in 0..50 {
                yield_now().await;
            }
        }
    };
    tokio::select! {
        () = passing => {}
        never = watcher.run(&admin) => match never {},
    }
}

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

#[tokio::test]
async fn who_holds_waits_and_follows_is_seen_within_seconds() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(Vec::new(), Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let first = client.mutex("x").label("first").acquire().await.unwrap();
    let lock = store.holder().await.mutex("x");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    watch(&clock, &store, &watcher, SECONDS(5)).await;
    let seen = || watcher.picture().rows().next().unwrap().1.clone();
    assert_eq!((seen().token(), seen().status.waiting), (Some(first.token()), 1));
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    watch(&clock, &store, &watcher, SECONDS(5)).await;
    assert_eq!(seen().token(), Some(second.token()));
    second.release().await.unwrap();
    watch(&clock, &store, &watcher, SECONDS(5)).await;
    assert_eq!(watcher.picture().totals().held, 0);
    assert_eq!(seen().history.bars.len(), 2);
}

#[tokio::test]
async fn the_budget_is_kept_in_every_second_and_every_name_is_seen_all_the_same() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(Vec::new(), Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let mut held = Vec::new();
    for number in 0..1000 {
        let lock = client.mutex(format!("n{number}")).ttl(SECONDS(3600));
        held.push(lock.acquire().await.unwrap());
    }
    watch(&clock, &store, &watcher, SECONDS(6)).await;
    assert_eq!(watcher.picture().totals().held, 1000);
    let asked = store.asked();
    for (begin, _) in &asked {
        let within = |at: &Duration| (*begin..*begin + SECONDS(1)).contains(at);
        let keys: u32 = asked.iter().filter(|(at, _)| within(at)).map(|(_, keys)| keys).sum();
        assert!(keys <= KEYS_PER_SECOND, "{keys} keys in the second from {begin:?} on");
    }
    assert!(watcher.picture().round_took_ms.is_some());
}

#[tokio::test]
async fn a_walk_beside_many_looks_asks_for_many_keys_at_a_time() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(Vec::new(), Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let mut held = Vec::new();
    // There are too many names to look at each of them as often as it should be, so the whole
    // budget is spent.
    for number in 0..4000 {
        let lock = client.mutex(format!("n{number}")).ttl(SECONDS(3600));
        held.push(lock.acquire().await.unwrap());
    }
    let tick = Duration::from_millis(1);
    watch_by(tick, &clock, &store, &watcher, SECONDS(10)).await;
    let (pages, asked) = (store.pages.lock().unwrap().clone(), store.asked());
    let (passed, spent): (u32, u32) =
        (pages.iter().sum(), asked.iter().map(|(_, keys)| keys).sum());
    println!("{passed} of {spent} keys in {} pages", pages.len());
    assert!(passed >= 6_000, "up to half is for new names: {passed}");
    assert!(spent >= 15_000, "what may be spent is: {spent}");
    assert!(pages.len() <= 200, "{} pages", pages.len());
}

#[tokio::test]
async fn looks_that_become_due_one_by_one_are_asked_for_together() {
    let clock = FakeClock::new();
    let store = Watched::new(&clock);
    let watcher = Watcher::new(Vec::new(), Timekeeper::new(clock.clone()));
    let client = store.holder().await;
    let mut held = Vec::new();
    let tick = Duration::from_millis(1);
    for number in 0..200 {
        let lock = client.mutex(format!("n{number}")).ttl(SECONDS(3600));
        held.push(lock.acquire().await.unwrap());
        // Each name is found, and so becomes due, a moment after the name before.
        let name = LockName::new(format!("n{number}")).unwrap();
        watcher.picture().found(vec![name], watcher.time.now_ms());
        watch_by(tick, &clock, &store, &watcher, 10 * tick).await;
    }
    store.asked.lock().unwrap().clear();
    watch_by(tick, &clock, &store, &watcher, SECONDS(10)).await;
    let asked = store.asked();
    let moments: std::collections::BTreeSet<Duration> = asked.iter().map(|(at, _)| *at).collect();
    println!("{} questions at {} moments", asked.len(), moments.len());
    assert!(asked.len() >= 900, "{} looks", asked.len());
    assert!(moments.len() <= 250, "{} moments", moments.len());
}

#[test]
fn no_second_sees_more_spent_than_the_budget_however_greedy_the_spender() {
    let mut budget = Budget::new(0);
    let mut spent: Vec<(u64, u32)> = Vec::new();
    for now_ms in (0..5_000).step_by(7) {
        let keys = budget.left(now_ms);
        budget.spend(now_ms, keys);
        spent.push((now_ms, keys));
    }
    for (begin_ms, _) in &spent {
        let within = |at_ms: &u64| (*begin_ms..begin_ms + 1000).contains(at_ms);
        let sum: u32 = spent.iter().filter(|(at, _)| within(at)).map(|(_, keys)| keys).sum();
        assert!(sum <= KEYS_PER_SECOND, "{sum} keys in the second from {begin_ms} ms on");
    }
    let total: u32 = spent.iter().map(|(_, keys)| keys).sum();
    assert!(total >= 8_000, "what is allowed can be spent: {total}");
}

#[test]
fn an_empty_budget_tells_when_there_is_enough_again() {
    let mut budget = Budget::new(100);
    budget.spend(100, 400);
    assert_eq!((budget.left(100), budget.is_enough(100)), (0, false));
    assert_eq!(budget.refilled_ms(100), 225, "half of it, at 1600 keys a second");
    assert_eq!((budget.is_enough(224), budget.is_enough(225)), (false, true));
    assert_eq!(budget.refilled_ms(225), 225);
}
