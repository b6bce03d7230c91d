//! Many clients want one lock while a server or a network is hurt again and again. Their history is
//! recorded and checked.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::lease::Mode;
use leasehold::{Client, FencingToken, Guard};
use leasehold_core::backoff::Jitter;
use leasehold_testkit::history::{Call, History, Hold, Outcome, Violation};
use leasehold_testkit::{RedisServer, Section};
use tokio::time::sleep;

use crate::scene::{PATIENCE, SHORT, connect, soon};

/// How many tasks of one client want the same lock.
const TASKS: u32 = 4;

/// How often the trouble comes before contention may end: on any machine, more than once.
const OFTEN: u32 = 3;

/// Whether the server kept its acknowledged writes. If not, two may hold a lock for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Kept,
    Lost,
}

impl Memory {
    /// Whether the test allows this violation.
    fn allows(self, violation: Violation) -> bool {
        match self {
            Self::Kept => false,
            // Two holders at the same time write in any order.
            Self::Lost => matches!(violation, Violation::Overlap | Violation::WriteOrder),
        }
    }
}

/// The work that a lock protects.
struct Work {
    memory: Memory,
    since: Instant,
    /// How many turns have begun.
    turns: AtomicU64,
    inside: Section,
    history: Mutex<History>,
}

impl Work {
    fn new(memory: Memory) -> Self {
        let (inside, history) = (Section::default(), Mutex::default());
        Self { memory, since: Instant::now(), turns: AtomicU64::new(0), inside, history }
    }

    /// The holder before must have left, or must know that its lease has ended.
    fn enter(&self, guard: &Guard) {
        let entered = self.inside.enter(guard);
        assert!(entered.is_ok() || self.memory == Memory::Lost, "{entered:?}");
        self.history.lock().unwrap().accepted.push(guard.token());
    }

    /// Reads or writes.
    async fn read_or_write(&self, client: &Client) {
        let mut random = Jitter::new(self.turns.fetch_add(1, Ordering::Relaxed));
        let asked = self.since.elapsed();
        let lock = client.rwlock("contended");
        let (mode, lock) = match random.next_u64() % 3 {
            0 => (Mode::Exclusive, lock.write()),
            _ => (Mode::Shared, lock.read()),
        };
        let lock = lock.ttl(SHORT);
        let guard = loop {
            match lock.acquire().await {
                Ok(guard) => break guard,
                // On a busy machine, the trouble may come before the first contact.
                Err(error) => self.history.lock().unwrap().errors.push(error),
            }
        };
        let entered = self.since.elapsed();
        let (token, least) = (guard.token(), entered + guard.validity());
        sleep(random.between(Duration::ZERO, Duration::from_millis(50))).await;
        let hold = self.leave_after(&guard, (token, entered, least));
        self.note(Call { id: guard.holder(), mode, asked, outcome: Outcome::Held(hold) }, guard)
            .await;
    }

    async fn take_turn(&self, client: &Client) {
        let asked = self.since.elapsed();
        let guard = client.mutex("contended").ttl(SHORT).acquire().await.unwrap();
        let entered = self.since.elapsed();
        let least = entered + guard.validity();
        self.enter(&guard);
        tokio::task::yield_now().await;
        self.inside.leave(&guard);
        let hold = self.leave_after(&guard, (guard.token(), entered, least));
        let (id, mode, outcome) = (guard.holder(), Mode::Exclusive, Outcome::Held(hold));
        self.note(Call { id, mode, asked, outcome }, guard).await;
    }

    /// The facts about a hold whose work has ended just now.
    fn leave_after(
        &self,
        guard: &Guard,
        (token, entered, least): (FencingToken, Duration, Duration),
    ) -> Hold {
        let left = self.since.elapsed();
        let (validity, was_told) = (guard.validity(), !guard.is_held());
        // The validity of a lost lease is not known any more.
        let valid_until = if was_told { least } else { left + validity };
        Hold { token, entered, left, valid_until, was_told }
    }

    async fn note(&self, call: Call, guard: Guard) {
        // The faults may cause a release without an answer, or a lost lease.
        let told = guard.release().await.err();
        let mut history = self.history.lock().unwrap();
        history.calls.push(call);
        history.errors.extend(told);
    }
}

/// The kind of lock that is contended for.
#[derive(Clone, Copy)]
enum What {
    Mutex,
    /// By readers and writers.
    ReadWriteLock,
}

/// A number of clients of one server.
pub(crate) async fn connect_all(url: &str, clients: u32) -> Vec<Client> {
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(connect(url).await);
    }
    connected
}

/// Four tasks of each client take turns this many times, whatever happens to the server meanwhile.
pub(crate) async fn contend(clients: &[Client], rounds: u32) {
    contend_until(What::Mutex, clients, rounds, Memory::Kept, || true).await;
}

/// The same until the trouble has come often enough. The speed of a machine decides how many turns
/// fit in between, never whether the trouble was tested.
pub(crate) async fn contend_during(
    trouble: Hurting,
    clients: &[Client],
    rounds: u32,
    memory: Memory,
) {
    contend_for(What::Mutex, trouble, clients, rounds, memory).await;
}

/// The same for readers and writers.
pub(crate) async fn read_or_write_during(trouble: Hurting, clients: &[Client], rounds: u32) {
    contend_for(What::ReadWriteLock, trouble, clients, rounds, Memory::Kept).await;
}

async fn contend_for(
    what: What,
    trouble: Hurting,
    clients: &[Client],
    rounds: u32,
    memory: Memory,
) {
    let times = Arc::clone(&trouble.times);
    let has_come_often = move || times.load(Ordering::Relaxed) >= OFTEN;
    contend_until(what, clients, rounds, memory, has_come_often).await;
    trouble.end();
}

async fn contend_until(
    what: What,
    clients: &[Client],
    rounds: u32,
    memory: Memory,
    may_end: impl Fn() -> bool + Clone + Send + 'static,
) {
    let work = Arc::new(Work::new(memory));
    let mut running = Vec::new();
    for client in clients {
        for _ in 0..TASKS {
            let (client, work, may_end) = (client.clone(), Arc::clone(&work), may_end.clone());
            running.push(tokio::spawn(async move {
                let mut turns = 0;
                while turns < rounds || !may_end() {
                    match what {
                        What::Mutex => work.take_turn(&client).await,
                        What::ReadWriteLock => work.read_or_write(&client).await,
                    }
                    turns += 1;
                }
                turns as usize
            }));
        }
    }
    let mut visits = 0;
    for task in running {
        visits += soon(task).await.expect("a turn is taken");
    }
    let history = std::mem::take(&mut *work.history.lock().unwrap());
    assert_eq!(history.calls.len(), visits);
    let violations = match memory {
        Memory::Lost => history.violations_if_forgotten(PATIENCE),
        Memory::Kept => history.violations(PATIENCE),
    };
    let forbidden: Vec<_> = violations.iter().filter(|what| !memory.allows(**what)).collect();
    assert!(forbidden.is_empty(), "{forbidden:?} in {history:#?}");
}

/// Hurts a server again and again, at growing intervals: so that turns are taken in between on the
/// slowest machine, too.
pub(crate) struct Hurting {
    stop: Arc<AtomicBool>,
    times: Arc<AtomicU32>,
    thread: std::thread::JoinHandle<()>,
}

impl Hurting {
    pub(crate) fn every(pause: Duration, mut hurt: impl FnMut() + Send + 'static) -> Self {
        let (stop, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&times));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                hurt();
                let times = counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(pause * (1 + times / 8));
            }
        });
        Self { stop, times, thread }
    }

    /// Hurts it by a command.
    pub(crate) fn by(server: &RedisServer, pause: Duration, command: &'static str) -> Self {
        let mut connection = server.connection().unwrap();
        Self::every(pause, move || {
            let mut words = redis::Cmd::new();
            command.split(' ').for_each(|word| {
                words.arg(word);
            });
            words.exec(&mut connection).unwrap();
        })
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server was hurt as intended");
    }
}
