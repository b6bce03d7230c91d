//! Steps whose thread is stopped in the middle.

use std::fmt;

use leasehold_core::{Acquire, BoxFuture, FakeClock, HolderId, Instant, Mode};

use super::*;
use crate::store::file::options::RULES;

const TTL: Duration = Duration::from_secs(30);
const ALICE: ClientId = ClientId(0xa11ce);
const BOB: ClientId = ClientId(0xb0b);

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A clock whose reader is stopped right after it has read the time, while others do some work.
#[derive(Clone, Default)]
struct Stopping {
    clock: FakeClock,
    meanwhile: Arc<std::sync::Mutex<Option<Meanwhile>>>,
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for Stopping {
    fn now(&self) -> Instant {
        let now = self.clock.now();
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        now
    }

    fn wall_us(&self) -> u64 {
        self.clock.wall_us()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(at)
    }
}

fn open(directory: &tempfile::TempDir, clock: impl Clock) -> Executor {
    let options = FileOptions::new(directory.path().join("locks.db"));
    Executor::open(&options, "boot".to_owned(), Arc::new(clock)).unwrap()
}

/// One transaction, after which nothing is tidied.
fn on(executor: &Executor, action: Action) -> Reply {
    let shared = &executor.shared;
    let operation = Operation::On { name: LockName::new("a").unwrap(), action };
    shared.in_turn(|database| shared.apply(database, &operation)).unwrap().0.reply
}

fn acquire(client: ClientId) -> Action {
    let id = HolderId { client, attempt: 1 };
    Action::Acquire(Acquire::new(id, Mode::Exclusive, TTL).with_wait(true))
}

/// The holder renews its lease, or the waiter asks for its place.
fn poll(client: ClientId) -> Action {
    Action::Poll { id: HolderId { client, attempt: 1 }, ttl: TTL }
}

#[test]
fn a_grant_by_tidying_that_was_stopped_before_lasts_until_its_waiter_can_claim_it() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Stopping::default();
    let tidies = open(&directory, clock.clone());
    let [alices, bobs] = [(); 2].map(|()| Arc::new(open(&directory, clock.clock.clone())));
    on(&alices, acquire(ALICE));
    on(&bobs, acquire(BOB));
    let (time, bob) = (clock.clock.clone(), Arc::clone(&bobs));
    let meanwhile = move || {
        // Somewhat later, Bob would count as dead.
        time.advance(RULES.longest_silence);
        on(&alices, poll(ALICE));
        on(&bob, poll(BOB));
        // Alice's process ends.
        drop(alices);
    };
    *clock.meanwhile.lock().unwrap() = Some(Box::new(meanwhile));
    tidies.shared.tidy().unwrap();
    let claimed = on(&bobs, poll(BOB));
    assert!(matches!(claimed, Reply::Granted(_)), "{claimed:?}");
}
