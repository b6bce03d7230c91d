//! Many clients want one lock while a server or a network is hurt again and again. Their history is
//! recorded and checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leasehold::Client;
use leasehold_testkit::harness::until;
use leasehold_testkit::history::{History, Violation};
use leasehold_testkit::{Contenders, RedisServer, Work};

use crate::scene::{PATIENCE, SHORT, connect};

/// How many tasks of one client want the same lock.
const TASKS: usize = 4;

/// How often the trouble comes before contention may end: on any machine, more than once.
const OFTEN: u32 = 3;

/// Whether the server kept its acknowledged writes. If not, two may hold a lock for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Kept,
    Lost,
}

impl Memory {
    fn allows(self, violation: Violation) -> bool {
        match self {
            Self::Kept => false,
            // Two holders at the same time write in any order.
            Self::Lost => matches!(violation, Violation::Overlap | Violation::WriteOrder),
        }
    }

    /// Fails the test if there is a violation that it does not allow.
    pub(crate) fn judge(self, history: &History) {
        let mut violations = match self {
            Self::Lost => history.violations_if_forgotten(PATIENCE),
            Self::Kept => history.violations(PATIENCE),
        };
        violations.retain(|what| !self.allows(*what));
        assert!(violations.is_empty(), "{violations:?} in {history:#?}");
    }
}

/// A number of clients of one server.
pub(crate) async fn connect_all(url: &str, clients: u32) -> Vec<Client> {
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(connect(url).await);
    }
    connected
}

/// Four tasks of each client take turns this many times on average, whatever happens to the server
/// meanwhile.
pub(crate) async fn contend(clients: &[Client], rounds: usize) {
    contend_until(Work::Brief, clients, rounds, Memory::Kept, || true).await;
}

/// The same until the trouble has come often enough. The speed of a machine decides how many turns
/// fit in between, never whether the trouble was tested.
pub(crate) async fn contend_during(
    trouble: Hurting,
    clients: &[Client],
    rounds: usize,
    memory: Memory,
) {
    contend_for(Work::Brief, trouble, clients, rounds, memory).await;
}

/// The same for readers and writers.
pub(crate) async fn read_or_write_during(trouble: Hurting, clients: &[Client], rounds: usize) {
    contend_for(Work::ReadOrWrite, trouble, clients, rounds, Memory::Kept).await;
}

async fn contend_for(
    work: Work,
    trouble: Hurting,
    clients: &[Client],
    rounds: usize,
    memory: Memory,
) {
    let times = Arc::clone(&trouble.times);
    let has_come_often = move || times.load(Ordering::Relaxed) >= OFTEN;
    contend_until(work, clients, rounds, memory, has_come_often).await;
    trouble.end();
}

async fn contend_until(
    work: Work,
    clients: &[Client],
    rounds: usize,
    memory: Memory,
    may_end: impl Fn() -> bool,
) {
    let contenders = Contenders::crowd(work, clients, TASKS, SHORT);
    let turns = rounds * clients.len() * TASKS;
    until("all turns are taken", async || contenders.turns() >= turns && may_end()).await;
    memory.judge(&contenders.history().await);
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
