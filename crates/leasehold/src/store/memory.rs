//! Locks of one process: the model, with its records behind a Rust mutex.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, MutexGuard};

use leasehold_core::model::{self, Outcome, Record, Rules};
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, Clock, LockName, Message, Now, Operation, Page, StoreError,
};
use tokio::sync::mpsc;

use super::finding::Topic;
use super::{Capabilities, Finding, Inbox, Store, Subscribed, Subscription};
use crate::clock::SystemClock;
use crate::mutex::Mutex;

/// A store without a server, for the locks of one process and for tests with a fake clock.
///
/// Clones share their locks.
#[derive(Clone, Debug)]
pub struct Memory {
    clock: Arc<dyn Clock>,
    shared: Arc<Mutex<Shared>>,
}

/// The interval at which what is out of use is forgotten: 2 min.
const COLLECTION_US: u64 = 120_000_000;

/// The finding about a store in memory.
pub(super) fn finding() -> Finding {
    Topic("memory:", "reachable").warning(
        "the locks are in the memory of one process",
        "nobody else sees them, and a restart forgets them",
        "write file:PATH or redis://HOST for more than one process",
    )
}

#[derive(Default)]
struct Shared {
    names: Names,
    inboxes: HashMap<ClientId, mpsc::UnboundedSender<Message>>,
    subscribers: HashMap<LockName, Vec<mpsc::UnboundedSender<String>>>,
    /// The time of the next search for records that are out of use.
    next_collection_us: u64,
}

/// The record of each name.
#[derive(Default)]
struct Names {
    records: BTreeMap<LockName, Record>,
    /// The number from which all tokens and places are drawn.
    counter: u64,
}

debug_as!(Shared => |it, f| f.debug_tuple("Shared").field(&it.names.records.len()).finish());

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// An empty store on the given clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::on(Arc::new(clock))
    }

    pub(crate) fn on(clock: Arc<dyn Clock>) -> Self {
        Self { clock, shared: Arc::default() }
    }

    /// The store's record of a name, for tests that compare stores.
    pub fn record(&self, name: &LockName) -> Option<Record> {
        self.shared().names.records.get(name).cloned()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    fn apply(&self, operation: &Operation) -> Answer {
        let mut shared = self.shared();
        // A thread that had read the clock before could then be stopped. Its late step would end
        // the leases that others have renewed meanwhile, as if the clock had been set back.
        let now = Now::of(&*self.clock);
        shared.collect(now);
        let Ok((answer, messages)) = model::apply(&mut shared.names, now, operation);
        for (client, message) in messages {
            shared.deliver(client, message);
        }
        answer
    }
}

impl model::Records for Names {
    type Error = Infallible;

    fn page(
        &mut self,
        now: Now,
        prefix: &str,
        after: Option<&str>,
        keys: u32,
    ) -> Result<Page, Infallible> {
        let mut page = Page::default();
        let is_next = |name: &&LockName| {
            name.as_str().starts_with(prefix) && after.is_none_or(|after| name.as_str() > after)
        };
        for (name, record) in self.records.iter().filter(|(name, _)| is_next(name)) {
            if !page.scan(name, record.is_in_use(now), keys) {
                break;
            }
        }
        Ok(page)
    }

    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, Infallible> {
        let record = match self.records.get_mut(name) {
            Some(record) => record,
            None => self.records.entry(name.clone()).or_default(),
        };
        let outcome = model::step(record, &mut self.counter, now, Rules::USUAL, action);
        if record.is_empty() {
            self.records.remove(name);
        }
        Ok(outcome)
    }
}

impl Shared {
    fn deliver(&self, client: ClientId, message: Message) {
        if let Some(inbox) = self.inboxes.get(&client) {
            // The send fails if the client has gone; it is forgotten later.
            let _ = inbox.send(message);
        }
    }

    /// Adds a subscriber, in place of those of the name that were dropped.
    fn subscribe(&mut self, name: &LockName, subscriber: mpsc::UnboundedSender<String>) {
        let subscribers = self.subscribers.entry(name.clone()).or_default();
        subscribers.retain(|subscriber| !subscriber.is_closed());
        subscribers.push(subscriber);
    }

    fn publish(&self, name: &LockName, message: &str) {
        for subscriber in self.subscribers.get(name).into_iter().flatten() {
            let _ = subscriber.send(message.to_owned());
        }
    }

    /// Every 2 min, forgets the records whose time is over, and the inboxes and subscriptions
    /// that were dropped.
    fn collect(&mut self, now: Now) {
        if now.lease_us < self.next_collection_us {
            return;
        }
        self.next_collection_us = now.lease_us + COLLECTION_US;
        self.names.records.retain(|_, record| {
            record.expire(now);
            !record.is_empty()
        });
        self.inboxes.retain(|_, inbox| !inbox.is_closed());
        self.subscribers.retain(|_, subscribers| {
            subscribers.retain(|subscriber| !subscriber.is_closed());
            !subscribers.is_empty()
        });
    }
}

impl Store for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities::OF_RECORDS
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move { Ok(self.apply(&operation)) })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared().inboxes.insert(client, sender);
        Box::pin(async move { Ok(Box::new(MemoryInbox(receiver)) as Box<dyn Inbox>) })
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.shared().publish(name, message);
        Box::pin(async { Ok(()) })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared().subscribe(name, sender);
        Box::pin(async move {
            Ok(Some(Box::new(MemorySubscription(receiver)) as Box<dyn Subscription>))
        })
    }

    fn forget(&self, client: ClientId) {
        self.shared().inboxes.remove(&client);
    }
}

struct MemoryInbox(mpsc::UnboundedReceiver<Message>);

impl Inbox for MemoryInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            match self.0.recv().await {
                Some(message) => message,
                // Another inbox was opened for the same client, or the client was forgotten, so
                // this inbox is silent from now on.
                None => std::future::pending().await,
            }
        })
    }
}

struct MemorySubscription(mpsc::UnboundedReceiver<String>);

impl Subscription for MemorySubscription {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(self.0.recv()) // the store keeps the other end, so this does not end
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::Duration;

    use leasehold_core::{FakeClock, Instant};

    use super::*;
    use crate::store::Quorum;

    /// A clock that notes how often the records had been locked when it was read.
    #[derive(Clone, Debug, Default)]
    struct Noting {
        clock: FakeClock,
        records: Arc<OnceLock<Arc<Mutex<Shared>>>>,
        locked: Arc<Mutex<Vec<usize>>>,
    }

    impl Noting {
        fn note(&self) {
            if let Some(records) = self.records.get() {
                self.locked.lock().push(records.locked());
            }
        }
    }

    impl Clock for Noting {
        fn now(&self) -> Instant {
            self.note();
            self.clock.now()
        }

        fn wall_us(&self) -> u64 {
            self.note();
            self.clock.wall_us()
        }

        fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
            self.clock.sleep_until(at)
        }
    }

    #[test]
    fn the_clock_is_read_only_once_the_records_are_locked() {
        let clock = Noting::default();
        let memory = Memory::with_clock(clock.clone());
        clock.records.set(Arc::clone(&memory.shared)).unwrap();
        let before = memory.shared.locked();
        let inspect = Action::Look { limit: 1 };
        memory.apply(&Operation::On { name: LockName::new("a").unwrap(), action: inspect });
        assert_eq!(*clock.locked.lock(), [before + 1; 2], "one time for leases, one for tokens");
    }

    #[tokio::test]
    async fn what_a_client_has_left_is_forgotten() {
        let clock = FakeClock::new();
        let memory = Memory::with_clock(clock.clone());
        let name = LockName::new("a").unwrap();
        for number in 0..1000 {
            let _inbox = memory.inbox(ClientId(number)).await.unwrap();
            memory.forget(ClientId(number));
            drop(memory.subscribe(&name).await.unwrap());
        }
        assert_eq!(memory.shared().inboxes.len(), 0);
        assert_eq!(memory.shared().subscribers[&name].len(), 1);
        drop(memory.inbox(ClientId(1)).await.unwrap());
        let _inbox = memory.inbox(ClientId(2)).await.unwrap();
        clock.advance(Duration::from_micros(COLLECTION_US));
        memory.apply(&Operation::On { name, action: Action::Look { limit: 1 } });
        let shared = memory.shared();
        assert_eq!((shared.inboxes.len(), shared.subscribers.len()), (1, 0));
    }

    #[tokio::test]
    async fn the_nodes_of_a_quorum_forget_its_clients() {
        let nodes = [(); 3].map(|()| Memory::new());
        let quorum = Quorum::new(nodes.iter().map(|node| node.clone().into()).collect()).unwrap();
        let _inbox = quorum.inbox(ClientId(1)).await.unwrap();
        assert!(nodes.iter().all(|node| node.shared().inboxes.len() == 1));
        quorum.forget(ClientId(1));
        assert!(nodes.iter().all(|node| node.shared().inboxes.is_empty()));
    }
}
