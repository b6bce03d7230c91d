//! Tests of watching stores in memory, on a clock that stands still until a test moves it.

use leasehold::error::StoreError;
use leasehold::store::protocol::{Answer, BoxFuture, Operation, Reply};
use leasehold::store::{Memory, Store};
use leasehold::time::FakeClock;
use leasehold::{Client, Guard, LockName};
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

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

/// A watcher of a store on a clock, and the leases that are held meanwhile.
struct Scene {
    store: Watched,
    watcher: Watcher,
    held: Vec<Guard>,
}

impl Scene {
    fn new() -> Self {
        let clock = FakeClock::new();
        let watcher = Watcher::new(Vec::new(), Timekeeper::new(clock.clone()));
        let (memory, asked) = (Memory::with_clock(clock.clone()), Arc::default());
        let store = Watched { memory, clock, asked, pages: Arc::default() };
        Self { store, watcher, held: Vec::new() }
    }

    async fn client(&self, store: impl Store) -> Client {
        Client::builder().store(store).clock(self.store.clock.clone()).build().await.unwrap()
    }

    /// A client for holders, whose requests are not noted, because they are not those of the
    /// watcher.
    async fn holder(&self) -> Client {
        self.client(self.store.memory.clone()).await
    }

    async fn hold(&mut self, client: &Client, name: &str) {
        self.held.push(client.mutex(name).ttl(SECONDS(3600)).acquire().await.unwrap());
    }

    async fn hold_many(&mut self, count: usize) {
        let client = self.holder().await;
        for number in 0..count {
            self.hold(&client, &format!("n{number}")).await;
        }
    }

    /// Watches for a span, on a clock that moves in steps of this length.
    async fn watch(&self, step: Duration, span: Duration) {
        let client = self.client(self.store.clone()).await;
        let admin = client.admin();
        let passing = async {
            for _ in 0..span.as_millis() / step.as_millis() {
                self.store.clock.advance(step);
                for _ in 0..50 {
                    yield_now().await;
                }
            }
        };
        tokio::select! {
            () = passing => {}
            never = self.watcher.run(&admin, |_| {}) => match never {},
        }
    }

    fn asked(&self) -> Vec<(Duration, u32)> {
        self.store.asked.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn who_holds_waits_and_follows_is_seen_within_seconds() {
    let scene = Scene::new();
    let client = scene.holder().await;
    let first = client.mutex("x").label("first").acquire().await.unwrap();
    let lock = scene.holder().await.mutex("x");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    scene.watch(STEP, SECONDS(5)).await;
    let seen = || scene.watcher.picture().rows().next().unwrap().1.clone();
    assert_eq!((seen().token(), seen().status.waiting), (Some(first.token()), 1));
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    scene.watch(STEP, SECONDS(5)).await;
    assert_eq!(seen().token(), Some(second.token()));
    second.release().await.unwrap();
    scene.watch(STEP, SECONDS(5)).await;
    assert_eq!(scene.watcher.picture().totals().held, 0);
    assert_eq!(seen().history.bars.len(), 2);
}

#[tokio::test]
async fn the_budget_is_kept_in_every_second_and_every_name_is_seen_all_the_same() {
    let mut scene = Scene::new();
    scene.hold_many(1000).await;
    scene.watch(STEP, SECONDS(6)).await;
    assert_eq!(scene.watcher.picture().totals().held, 1000);
    let asked = scene.asked();
    for (begin, _) in &asked {
        let within = |at: &Duration| (*begin..*begin + SECONDS(1)).contains(at);
        let keys: u32 = asked.iter().filter(|(at, _)| within(at)).map(|(_, keys)| keys).sum();
        assert!(keys <= KEYS_PER_SECOND, "{keys} keys in the second from {begin:?} on");
    }
    assert!(scene.watcher.picture().round_took_ms.is_some());
}

#[tokio::test]
async fn a_walk_beside_many_looks_asks_for_many_keys_at_a_time() {
    let mut scene = Scene::new();
    // There are too many names to look at each of them as often as it should be, so the whole
    // budget is spent.
    scene.hold_many(4000).await;
    let tick = Duration::from_millis(1);
    scene.watch(tick, SECONDS(10)).await;
    let (pages, asked) = (scene.store.pages.lock().unwrap().clone(), scene.asked());
    let (passed, spent): (u32, u32) =
        (pages.iter().sum(), asked.iter().map(|(_, keys)| keys).sum());
    println!("{passed} of {spent} keys in {} pages", pages.len());
    assert!(passed >= 6_000, "up to half is for new names: {passed}");
    assert!(spent >= 15_000, "what may be spent is: {spent}");
    assert!(pages.len() <= 200, "{} pages", pages.len());
}

#[tokio::test]
async fn looks_that_become_due_one_by_one_are_asked_for_together() {
    let mut scene = Scene::new();
    let client = scene.holder().await;
    let tick = Duration::from_millis(1);
    for number in 0..200 {
        scene.hold(&client, &format!("n{number}")).await;
        // Each name is found, and so becomes due, a moment after the name before.
        let name = LockName::new(format!("n{number}")).unwrap();
        scene.watcher.picture().found(vec![name], scene.watcher.time.now_ms());
        scene.watch(tick, 10 * tick).await;
    }
    scene.store.asked.lock().unwrap().clear();
    scene.watch(tick, SECONDS(10)).await;
    let asked = scene.asked();
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
