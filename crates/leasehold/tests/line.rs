//! Callers of one client stand in line for a name: the lease goes from one to the next, and the
//! store is asked when a slice is over. By a clock that the tests move, on a store that counts.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::event::Event;
use leasehold::store::{Capabilities, Inbox, Memory, Store};
use leasehold::{Client, Error, FencingToken, Guard, LossReason};
use leasehold_core::backoff::Jitter;
use leasehold_core::{Action, Answer, BoxFuture, ClientId, FakeClock, Operation, StoreError};
use tokio::sync::watch;

const SLICE: Duration = Duration::from_millis(5);
const TTL: Duration = Duration::from_secs(30);

/// A store in memory that says what it was asked, and holds back what it is told to.
#[derive(Clone, Debug)]
struct Watched {
    memory: Memory,
    asked: Arc<Mutex<Vec<&'static str>>>,
    held_back: watch::Sender<Option<&'static str>>,
}

impl Store for Watched {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let kind = match &operation {
            Operation::On { action, .. } => match action {
                Action::Acquire(_) => "acquire",
                Action::Cancel { .. } => "cancel",
                Action::Inspect { .. } => "inspect",
                Action::Poll { .. } => "poll",
                Action::Release { .. } => "release",
                Action::Revoke { .. } => "revoke",
                _ => "other",
            },
            Operation::Renew(_) => "renew",
            _ => "other",
        };
        lock(&self.asked).push(kind);
        let mut held_back = self.held_back.subscribe();
        Box::pin(async move {
            let let_on = |held_back: &Option<&str>| *held_back != Some(kind);
            // It ends with the store, and so does this.
            let _ = held_back.wait_for(let_on).await;
            self.memory.execute(operation).await
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.memory.inbox(client)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn must<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error:?}"))
}

/// A clock, a store by it, and clients of that.
struct World {
    clock: FakeClock,
    store: Watched,
}

impl World {
    fn new() -> Self {
        let clock = FakeClock::new();
        clock.advance(Duration::from_secs(1_000));
        let memory = Memory::with_clock(clock.clone());
        let store = Watched { memory, asked: Arc::default(), held_back: watch::Sender::new(None) };
        Self { clock, store }
    }

    async fn client(&self) -> Client {
        let builder = Client::builder().store(self.store.clone()).clock(self.clock.clone());
        must(builder.slice(SLICE).build().await)
    }

    /// What the store was asked since the last time.
    fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *lock(&self.store.asked))
    }

    fn hold_back(&self, kind: Option<&'static str>) {
        self.store.held_back.send_replace(kind);
    }

    async fn waiting_at_the_store(&self) -> u32 {
        let looks = Client::builder().store(self.store.memory.clone()).clock(self.clock.clone());
        must(must(looks.build().await).admin().inspect("a").await).waiting
    }
}

/// A call that is polled when the test says so.
struct Call(Pin<Box<dyn Future<Output = leasehold::Result<Guard>>>>);

impl Call {
    fn new(client: &Client) -> Self {
        let lock = client.mutex("a").ttl(TTL);
        Self(Box::pin(async move { lock.acquire().await }))
    }

    fn poll(&mut self) -> Option<leasehold::Result<Guard>> {
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// Has begun and waits.
    async fn waiting(client: &Client) -> Self {
        let mut call = Self::new(client);
        assert!(call.poll().is_none());
        settle().await;
        assert!(call.poll().is_none());
        call
    }

    fn granted(&mut self) -> Guard {
        self.poll().map_or_else(|| panic!("it has no turn"), must)
    }
}

/// Lets every other task run until it waits for something.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lease_goes_from_caller_to_caller_in_their_order_without_the_store() {
    let world = World::new();
    let client = world.client().await;
    let mut guard = Call::new(&client).granted();
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(Call::waiting(&client).await);
    }
    world.asked();
    for turn in 0..calls.len() {
        let (token, lost) = (guard.token(), guard.lost());
        match turn % 2 {
            0 => guard.release().await.unwrap(),
            _ => drop(guard),
        }
        assert_eq!(lost.await, None, "it was let go of");
        for later in &mut calls[turn + 1..] {
            assert!(later.poll().is_none(), "whoever came first is served first");
        }
        guard = calls[turn].granted();
        assert!(guard.is_held() && guard.token() > token);
        assert_eq!(guard.token().micros(), token.micros());
    }
    assert_eq!(world.asked(), [""; 0]);
    world.clock.advance(Duration::from_micros(1));
    let last = guard.token();
    guard.release().await.unwrap();
    assert_eq!(world.asked(), ["release"]);
    assert!(Call::new(&world.client().await).granted().token() > last);
}

#[tokio::test]
async fn what_is_dropped_and_asked_for_again_takes_no_round_trip() {
    let world = World::new();
    let client = world.client().await;
    let mut guard = Call::new(&client).granted();
    settle().await;
    world.asked();
    for _ in 0..10 {
        let token = guard.token();
        drop(guard);
        guard = Call::new(&client).granted();
        assert!(guard.token() > token);
    }
    assert_eq!(world.asked(), [""; 0]);
    drop(guard);
    settle().await;
    assert_eq!(world.asked(), ["release"], "nobody came");
}

#[tokio::test]
async fn a_try_is_told_that_it_is_busy_without_the_store_while_its_client_holds_or_asks() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let guard = Call::new(&client).granted();
    settle().await;
    world.asked();
    assert!(client.mutex("a").ttl(TTL).try_acquire().await.unwrap().is_none());
    assert_eq!(world.asked(), [""; 0]);
    let waiting = Call::waiting(&other).await;
    world.asked();
    assert!(other.mutex("a").ttl(TTL).try_acquire().await.unwrap().is_none());
    assert_eq!(world.asked(), [""; 0]);
    drop((waiting, guard));
    settle().await;
    assert!(client.mutex("a").ttl(TTL).try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn clients_take_turns_and_each_turn_is_a_slice() {
    let world = World::new();
    let clients = [world.client().await, world.client().await];
    let mut guard = Some(Call::new(&clients[0]).granted());
    let mut calls = Vec::new();
    for _ in 0..3 {
        for client in &clients {
            calls.push(Call::waiting(client).await);
        }
    }
    let mut turns = Vec::new();
    for _ in 0..6 {
        world.clock.advance(SLICE);
        drop(guard.take());
        settle().await;
        let mut served = Vec::new();
        // What the first in line asks for comes with its own poll.
        for _ in 0..2 {
            for (number, call) in calls.iter_mut().enumerate() {
                if !turns.contains(&number)
                    && let Some(done) = call.poll()
                {
                    turns.push(number);
                    served.push(done.unwrap());
                }
            }
            settle().await;
        }
        assert_eq!(served.len(), 1, "{turns:?}");
        guard = served.pop();
    }
    // Of the second client those with odd numbers, who came one after the other.
    assert_eq!(turns, [1, 0, 3, 2, 5, 4]);
}

#[tokio::test]
async fn whoever_gives_up_leaves_its_place_at_the_store_to_the_next_in_line() {
    let world = World::new();
    let (client, other, third) = (world.client().await, world.client().await, world.client().await);
    let guard = Call::new(&other).granted();
    let first = Call::waiting(&client).await;
    let mut second = Call::waiting(&client).await;
    let mut behind = Call::waiting(&third).await;
    assert_eq!(world.waiting_at_the_store().await, 2, "one for each client");
    world.asked();
    drop(first);
    settle().await;
    assert_eq!((world.asked(), world.waiting_at_the_store().await), (vec![], 2));
    guard.release().await.unwrap();
    settle().await;
    assert!(behind.poll().is_none());
    second.granted().release().await.unwrap();
    settle().await;
    drop(behind.granted());
}

#[tokio::test]
async fn a_request_that_is_out_is_asked_again_by_the_next_when_its_caller_is_dropped() {
    let world = World::new();
    let client = world.client().await;
    Call::new(&client).granted().release().await.unwrap();
    world.hold_back(Some("acquire"));
    let first = Call::waiting(&client).await;
    let mut second = Call::waiting(&client).await;
    let mut third = Call::waiting(&client).await;
    world.hold_back(None);
    world.asked();
    drop(first);
    let guard = second.granted();
    assert_eq!(world.asked(), ["acquire"]);
    drop(guard);
    third.granted().release().await.unwrap();
    settle().await;
    assert_eq!(world.asked(), ["release"]);
}

#[tokio::test]
async fn a_caller_that_is_not_polled_holds_up_nobody_behind_it() {
    let world = World::new();
    let client = world.client().await;
    Call::new(&client).granted().release().await.unwrap();
    world.hold_back(Some("acquire"));
    let mut first = Call::waiting(&client).await;
    let mut second = Call::waiting(&client).await;
    let mut third = Call::waiting(&client).await;
    world.hold_back(None);
    world.clock.advance(Duration::from_secs(2));
    settle().await;
    let guard = second.granted();
    drop(guard);
    settle().await;
    // It went to the third, which does not fetch it in time.
    world.clock.advance(Duration::from_secs(2));
    settle().await;
    let guard = Call::new(&world.client().await).granted();
    assert!(third.poll().is_none(), "it was too late");
    assert!(first.poll().is_none(), "it joins anew");
    guard.release().await.unwrap();
    settle().await;
    third.granted().release().await.unwrap();
    settle().await;
    drop(first.granted());
}

#[tokio::test]
async fn a_loss_is_told_to_the_holder_and_the_first_in_line_asks_for_another_lease() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut calls = [Call::waiting(&client).await, Call::waiting(&client).await];
    drop(guard);
    let guard = calls[0].granted();
    world.asked();
    let admin = client.admin();
    let shown = admin.inspect("a").await.unwrap().holders[0].token;
    assert!(shown < guard.token());
    assert!(admin.revoke("a", shown).await.unwrap());
    settle().await;
    assert_eq!(guard.loss(), Some(LossReason::Revoked));
    assert!(calls[1].poll().is_none(), "the store holds until the other lets go");
    drop(guard);
    settle().await;
    let next = calls[1].granted();
    assert!(next.token().micros() > shown.micros());
}

#[tokio::test]
async fn closing_ends_all_who_stand_in_line() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut calls = [Call::waiting(&client).await, Call::waiting(&client).await];
    client.close().await.unwrap();
    assert_eq!(guard.loss(), Some(LossReason::Closed));
    for call in &mut calls {
        assert!(matches!(call.poll(), Some(Err(Error::Closed))));
    }
}

#[tokio::test]
async fn a_lease_that_is_not_what_was_granted_leaves_the_line() {
    let world = World::new();
    let client = world.client().await;
    let mut guard = Call::new(&client).granted();
    let mut call = Call::waiting(&client).await;
    world.asked();
    guard.downgrade().await.unwrap();
    assert!(call.poll().is_none());
    assert_eq!(world.asked(), ["other", "acquire"], "it queues behind the reader");
    drop(guard);
    settle().await;
    let guard = call.granted();
    let mut call = Call::waiting(&client).await;
    world.asked();
    guard.renew_for(TTL * 2).await.unwrap();
    assert!(call.poll().is_none());
    assert_eq!(world.asked(), ["renew", "acquire"]);
    drop(guard);
    settle().await;
    let guard = call.granted();
    let mut call = Call::waiting(&client).await;
    world.asked();
    let lease = guard.into_lease().unwrap();
    assert!(call.poll().is_none());
    assert_eq!(world.asked(), ["acquire"]);
    client.adopt(lease).await.unwrap().release().await.unwrap();
    settle().await;
    drop(call.granted());
}

#[tokio::test]
async fn a_renewal_that_was_out_while_the_lease_was_passed_on_extends_it() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    // The slice of a grant is over by the time that a renewal is due, so the renewal is explicit.
    let mut call = Call::waiting(&client).await;
    drop(guard);
    let guard = call.granted();
    let before = guard.validity();
    world.clock.advance(Duration::from_secs(12));
    settle().await;
    assert!(guard.is_held() && guard.validity() > before - Duration::from_secs(1));
}

#[tokio::test]
async fn whoever_stands_in_line_says_so_and_a_limit_names_the_holder() {
    let world = World::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let told = Arc::clone(&told);
        move |event: &Event<'_>| match event {
            Event::Waiting { ahead, .. } => told.lock().unwrap().push(format!("behind {ahead:?}")),
            Event::OwnLease { .. } => told.lock().unwrap().push("own".to_owned()),
            _ => {}
        }
    };
    let builder = Client::builder().store(world.store.clone()).clock(world.clock.clone());
    let client = builder.observer(observer).build().await.unwrap();
    let guard = Call::new(&client).granted();
    let _second = Call::waiting(&client).await;
    let lock = client.mutex("a").ttl(TTL);
    let limited = tokio::spawn(async move { lock.acquire_within(SLICE).await });
    settle().await;
    assert_eq!(*told.lock().unwrap(), ["behind Some(0)", "own", "behind Some(1)", "own"]);
    world.clock.advance(SLICE);
    let error = limited.await.unwrap().unwrap_err();
    let Error::Timeout { holder, own, .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.as_ref().unwrap().id, guard.holder());
    assert!(own);
}

#[tokio::test]
async fn an_answer_that_no_waiting_changes_goes_to_all_in_line() {
    let world = World::new();
    let client = world.client().await;
    let _permit = client.semaphore("a", 3).acquire().await.unwrap();
    world.hold_back(Some("acquire"));
    let first = Call::waiting(&client).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(Call::waiting(&client).await);
    }
    world.hold_back(None);
    world.asked();
    drop(first);
    for call in &mut calls {
        assert!(matches!(call.poll(), Some(Err(Error::Store(_)))));
    }
    assert_eq!(world.asked(), ["acquire"]);
}

#[tokio::test]
async fn whoever_asks_for_something_else_asks_the_store() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let _in_line = Call::waiting(&client).await;
    let others = [
        client.mutex("a").ttl(2 * TTL),
        client.mutex("a").ttl(TTL).max_hold(TTL),
        client.mutex("a").ttl(TTL).min_hold(SLICE),
        client.rwlock("a").read().ttl(TTL),
        client.multi(["a"]).ttl(TTL),
    ];
    let mut waiting = Vec::new();
    for lock in others {
        let mut call = Call(Box::pin(async move { lock.acquire().await }));
        assert!(call.poll().is_none());
        settle().await;
        waiting.push(call);
    }
    assert_eq!(world.waiting_at_the_store().await as usize, waiting.len());
    drop(guard);
}

/// What one caller does.
enum Caller {
    Idle,
    Waits(Call),
    Holds(Guard),
}

/// Callers of two clients, and what they were given so far.
struct Crowd {
    world: World,
    clients: Vec<Client>,
    callers: Vec<Caller>,
    last: Option<FencingToken>,
    jitter: Jitter,
}

impl Crowd {
    async fn new(seed: u64) -> Self {
        let world = World::new();
        let clients = vec![world.client().await, world.client().await];
        let callers = (0..8).map(|_| Caller::Idle).collect();
        Self { world, clients, callers, last: None, jitter: Jitter::new(seed) }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.jitter.next_u64() % limit
    }

    fn poll(&mut self, at: usize) {
        let Caller::Waits(call) = &mut self.callers[at] else { return };
        if let Some(done) = call.poll() {
            let guard = must(done);
            assert!(self.last.replace(guard.token()) < Some(guard.token()), "tokens grow");
            self.callers[at] = Caller::Holds(guard);
        }
    }

    async fn lets_go(&mut self, at: usize) {
        if let Caller::Holds(guard) = std::mem::replace(&mut self.callers[at], Caller::Idle) {
            match self.below(2) {
                0 => drop(guard),
                _ => drop(tokio::spawn(guard.release())),
            }
        }
    }

    /// One of them does something, or time passes, or the store is in trouble.
    async fn step(&mut self) {
        let at = self.below(8) as usize;
        match self.below(20) {
            0..=3 if matches!(self.callers[at], Caller::Idle) => {
                self.callers[at] = Caller::Waits(Call::new(&self.clients[at % 2]));
                self.poll(at);
            }
            0..=9 => self.poll(at),
            10..=13 => self.lets_go(at).await,
            14 if matches!(self.callers[at], Caller::Waits(_)) => self.callers[at] = Caller::Idle,
            14 => self.world.hold_back(Some("acquire")),
            15 => self.world.hold_back(Some("release")),
            16 => self.world.hold_back(None),
            17 => self.world.clock.advance(Duration::from_millis(1)),
            18 => self.world.clock.advance(SLICE),
            _ => self.world.clock.advance(Duration::from_secs(1)),
        }
        settle().await;
        let holders = self.callers.iter().filter(|caller| match caller {
            Caller::Holds(guard) => guard.is_held(),
            Caller::Idle | Caller::Waits(_) => false,
        });
        assert!(holders.count() <= 1, "one holds at a time");
    }

    fn waits(&self) -> bool {
        self.callers.iter().any(|caller| matches!(caller, Caller::Waits(_)))
    }
}

#[tokio::test]
async fn whatever_callers_do_one_holds_at_a_time_and_all_are_served() {
    for seed in 0..12 {
        let mut crowd = Crowd::new(seed).await;
        for _ in 0..150 {
            crowd.step().await;
        }
        crowd.world.hold_back(None);
        for _ in 0..100 {
            for at in 0..crowd.callers.len() {
                crowd.poll(at);
                crowd.lets_go(at).await;
                settle().await;
            }
            crowd.world.clock.advance(Duration::from_millis(100));
            settle().await;
        }
        assert!(!crowd.waits(), "all are served, seed {seed}");
        drop(crowd.callers);
        crowd.world.clock.advance(Duration::from_secs(5));
        settle().await;
        let looked = crowd.clients[0].admin().inspect("a").await.unwrap();
        assert_eq!((looked.holders.len(), looked.waiting), (0, 0), "nothing is left, seed {seed}");
    }
}
