//! Schedules, and clients of a store whose requests can be interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::model::Record;
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, FakeClock, LockName, Now, Operation, StoreError,
};
use shuttle::future::{block_on, yield_now};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::lock::Lock;
use crate::store::{Capabilities, Inbox, Memory, Store};
use crate::sync::explored::Exploration;
use crate::{Client, Guard};

/// The environment variable that sets how many schedules of each kind are tried for a scenario.
const MANY: &str = "LEASEHOLD_SCHEDULES";
const FEW: usize = 100;

/// Any number will do, but it is the same each time.
const SEED: u64 = 2026;

/// The number of changes of the priorities: most mistakes need no more.
const CHANGES: usize = 3;

/// The size of a thread's stack: as much as the system gives to a thread that is spawned.
const STACK: usize = 2 << 20;

/// The number of steps after which a scenario counts as endless.
const TOO_MANY: usize = 200_000;

pub(super) const TTL: Duration = Duration::from_secs(30);
pub(super) const NAME: &str = "a";

/// Runs a scenario in many schedules.
pub(super) fn explore(scenario: fn()) {
    let many = std::env::var(MANY).map_or(FEW, |many| many.parse().unwrap());
    let _exploration = Exploration::begin();
    let mut config = Config::new();
    (config.stack_size, config.max_steps) = (STACK, MaxSteps::FailAfter(TOO_MANY));
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(RandomScheduler::new_from_seed(SEED, many), config.clone()).run(scenario);
    Runner::new(PctScheduler::new_from_seed(SEED, CHANGES, many), config).run(scenario);
}

/// A store in memory that counts its requests. Other threads may run before and after each of them.
#[derive(Clone, Debug)]
struct Slow {
    memory: Memory,
    releases: Arc<AtomicUsize>,
    inboxes: Arc<AtomicUsize>,
}

impl Store for Slow {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            yield_now().await;
            if matches!(&operation, Operation::On { action: Action::End(_), .. }) {
                self.releases.fetch_add(1, Ordering::Relaxed);
            }
            let answer = self.memory.execute(operation).await;
            yield_now().await;
            answer
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move {
            let inbox = self.memory.inbox(client).await;
            self.inboxes.fetch_add(1, Ordering::Relaxed);
            inbox
        })
    }
}

/// A clock that stands still until a thread moves it, and a store that uses the clock.
#[derive(Clone)]
pub(super) struct World {
    pub(super) clock: FakeClock,
    store: Slow,
}

impl World {
    pub(super) fn new() -> Self {
        let clock = FakeClock::new();
        clock.advance(Duration::from_secs(1_000));
        let memory = Memory::with_clock(clock.clone());
        Self { clock, store: Slow { memory, releases: Arc::default(), inboxes: Arc::default() } }
    }

    /// A client that passes leases on for `slice`.
    pub(super) fn client(&self, slice: Duration) -> Client {
        let builder = Client::builder().store(self.store.clone()).clock(self.clock.clone());
        block_on(builder.slice(slice).build()).unwrap()
    }

    pub(super) fn record(&self) -> Record {
        self.store.memory.record(&LockName::new(NAME).unwrap()).unwrap_or_default()
    }

    /// Whether somebody holds or awaits the name.
    pub(super) fn is_in_use(&self) -> bool {
        self.record().is_in_use(Now::of(&self.clock))
    }

    /// The number of releases that the store was asked for.
    pub(super) fn releases(&self) -> usize {
        self.store.releases.load(Ordering::Relaxed)
    }

    /// Waits until messages arrive at this many clients. The clock stands still, so a client that
    /// missed a message would not ask.
    pub(super) fn until_inboxes_are_open(&self, clients: usize) {
        while self.store.inboxes.load(Ordering::Relaxed) < clients {
            block_on(yield_now());
        }
    }

    /// Closes a client, and checks that nothing of it is left.
    pub(super) fn close(&self, client: Client) {
        block_on(client.close()).unwrap();
        assert!(!self.is_in_use(), "nothing is left: {:?}", self.record());
    }
}

pub(super) fn lock(client: &Client) -> Lock {
    client.mutex(NAME).ttl(TTL)
}

pub(super) fn acquire(client: &Client) -> Guard {
    block_on(lock(client).acquire()).unwrap()
}
