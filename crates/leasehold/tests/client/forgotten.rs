//! Leases that their store has forgotten, and that the keeper takes back.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::event::Event;
use leasehold::store::protocol::{Record, Rules, step};
use leasehold::store::{Capabilities, Inbox, Memory, Store};
use leasehold::{Client, Guard, Lock};
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, FakeClock, Now, Operation, Reply, StoreError,
};

use crate::line::world::{lock, settle};

const TTL: Duration = Duration::from_secs(30);

/// A store that answers a renewal of several leases as if it had forgotten the first one, and as if
/// the others were revoked. One lease alone is renewed: a new client renews its leases at once, and
/// perhaps not both together. The store records whether it was asked to give a lease back.
#[derive(Clone, Debug)]
struct Forgetful {
    memory: Memory,
    was_asked: Arc<AtomicBool>,
}

impl Store for Forgetful {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.memory.capabilities();
        capabilities.reclaims = true;
        capabilities
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let renewed = match &operation {
                Operation::Keep(leases) => leases.len(),
                Operation::On { action: Action::Take(take), .. } if take.claim.is_some() => {
                    self.was_asked.store(true, Ordering::Relaxed);
                    0
                }
                _ => 0,
            };
            let mut answer = self.memory.execute(operation).await?;
            if renewed > 1 {
                let mut replies = vec![Reply::Revoked; renewed];
                replies[0] = Reply::NotHeld;
                answer.reply = Reply::Many(replies);
            }
            Ok(answer)
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.memory.inbox(client)
    }
}

/// A store of one name, whose memory a test can wipe. Then it is in quarantine: it grants nothing
/// new, and gives leases back.
#[derive(Clone, Debug)]
struct Wiped {
    clock: FakeClock,
    kept: Arc<Mutex<(Record, u64, Rules)>>,
}

impl Store for Wiped {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Memory::new().capabilities();
        capabilities.reclaims = true;
        capabilities
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let now = Now::of(&self.clock);
        let (record, counter, rules) = &mut *lock(&self.kept);
        let mut act = |action| step(record, counter, now, *rules, &action).reply;
        let reply = match operation {
            Operation::On { action, .. } => act(action),
            Operation::Keep(leases) => {
                let keeps = leases.into_iter().map(|(_, keep)| act(Action::Keep(keep)));
                Reply::Many(keeps.collect())
            }
            other => panic!("{other:?}"),
        };
        Box::pin(ready(Ok(Answer::new(now, reply))))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move { Memory::new().inbox(client).await })
    }
}

impl Wiped {
    fn new(clock: &FakeClock) -> Self {
        clock.advance(Duration::from_secs(1_000));
        let kept = Arc::new(Mutex::new((Record::default(), 0, Rules::USUAL)));
        Self { clock: clock.clone(), kept }
    }

    fn forget(&self) {
        *lock(&self.kept) = (Record::default(), 0, Rules { in_quarantine: true, ..Rules::USUAL });
    }

    async fn client(&self) -> Client {
        let builder = Client::builder().store(self.clone()).clock(self.clock.clone());
        builder.build().await.unwrap()
    }
}

/// The time between two steps of a test.
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_reader_or_a_permit_that_comes_back_first_keeps_out_none_that_it_held_beside() {
    let reader: fn(&Client) -> Lock = |client| client.rwlock("a").read();
    let permit: fn(&Client) -> Lock = |client| client.semaphore("a", 2).permit();
    for request in [reader, permit] {
        let clock = FakeClock::new();
        let store = Wiped::new(&clock);
        let (one, two) = (store.client().await, store.client().await);
        let first = request(&one).ttl(TTL).acquire().await.unwrap();
        clock.advance(MOMENT);
        let second = request(&two).ttl(TTL).acquire().await.unwrap();
        clock.advance(MOMENT);
        first.renew().await.unwrap();
        store.forget();
        second.renew().await.unwrap();
        first.renew().await.unwrap();
        let holders = two.admin().inspect("a").await.unwrap().holders;
        let mut tokens: Vec<_> = holders.iter().map(|holder| holder.token).collect();
        tokens.sort();
        assert_eq!(tokens, [Some(first.token()), Some(second.token())]);
    }
}

#[tokio::test]
async fn a_holder_sets_its_label_at_a_store_that_has_forgotten_its_lease_and_keeps_the_lease() {
    let clock = FakeClock::new();
    let store = Wiped::new(&clock);
    let client = store.client().await;
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    store.forget();
    guard.set_label("phase 2").await.unwrap();
    assert_eq!(guard.loss(), None);
    let [holder] = &client.admin().inspect("a").await.unwrap().holders[..] else { panic!() };
    assert_eq!((holder.id, holder.token), (guard.holder(), Some(guard.token())));
    assert_eq!(holder.info.label.as_deref(), Some("phase 2"));
}

#[tokio::test]
async fn a_lease_that_is_released_just_before_it_would_be_taken_back_is_not_taken_back() {
    let clock = FakeClock::new();
    clock.advance(Duration::from_secs(1_000));
    let memory = Memory::with_clock(clock.clone());
    let store = Forgetful { memory, was_asked: Arc::default() };
    let guards: Arc<Mutex<Vec<Guard>>> = Arc::default();
    let held = Arc::clone(&guards);
    // When one lease is lost, the other is released.
    let observer = move |event: &Event<'_>| {
        if let Event::Lost { lease, .. } = event {
            let mut guards = lock(&held);
            let other = guards.iter().position(|guard| guard.name() != lease.name).unwrap();
            let released = guards.remove(other).release();
            released.now_or_never().expect("the store answers immediately").unwrap();
        }
    };
    let builder = Client::builder().store(store.clone()).clock(clock.clone());
    let client = builder.observer(observer).build().await.unwrap();
    for name in ["a", "b"] {
        let guard = client.mutex(name).ttl(TTL).acquire().await.unwrap();
        lock(&guards).push(guard);
    }
    settle().await;
    clock.advance(TTL / 2);
    settle().await;
    let lost = lock(&guards).pop().unwrap();
    assert!(lost.loss().is_some());
    assert!(!store.was_asked.load(Ordering::Relaxed), "it would be held by nobody");
}
