//! Tasks that take turns at some locks while a test hurts servers, and the history of each lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use leasehold::lease::Mode;
use leasehold::{Client, Guard, Lock, LockName};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::ASK_INTERVAL;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::harness::{PATIENCE, apart, connect, must, until};
use crate::history::{Call, History, Hold, Outcome, Violation};
use crate::server::RedisServer;

/// The longest time that a reader or a writer stays.
const VISIT: Duration = Duration::from_millis(50);

/// How long a server hangs: about as long as a grant waits for its replicas by default. That is 250
/// ms, and up to 100 ms until the primary notices the timeout.
const HANGS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(450));

/// How many clients walk, and tasks of each.
const WALKING: usize = 16;

/// How many names they take.
const NAMES: usize = 1_000;

/// What a task does under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It leaves again at once.
    Brief,
    /// One of three writes and the others read, for some milliseconds.
    ReadOrWrite,
    /// It stays until the test tells all holders to leave.
    UntilTold,
}

/// Tasks that take turns at each of some locks until they are stopped.
pub struct Contenders {
    shared: Arc<Shared>,
    names: Vec<LockName>,
    /// Tells all holders to release.
    leave: watch::Sender<()>,
    tasks: JoinSet<()>,
}

struct Shared {
    began: Instant,
    work: Work,
    stopping: AtomicBool,
    seen: Mutex<BTreeMap<LockName, Seen>>,
}

/// The history of one name.
#[derive(Default)]
struct Seen {
    history: History,
    /// A client was granted the name after the last request to all holders to release.
    is_taken: bool,
}

impl Contenders {
    /// Lets every client want each of these locks. Holders stay until they are told to leave.
    pub fn start(clients: &[Client], names: &[LockName], ttl: Duration) -> Self {
        let each: Vec<_> = names.chunks(1).collect();
        Self::work(Work::UntilTold, clients, (&each, 1), ttl)
    }

    /// Lets some tasks of each client want one lock.
    pub fn crowd(work: Work, clients: &[Client], tasks: usize, ttl: Duration) -> Self {
        let one = [must(LockName::new("contended"))];
        Self::work(work, clients, (&[&one], tasks), ttl)
    }

    /// Lets 16 clients of this store, which share no connections, take 1,000 names with this
    /// prefix. Each of 16 tasks of a client takes one after the other, round and round.
    pub async fn walk(url: &str, prefix: &str, ttl: Duration) -> Self {
        let mut clients = Vec::new();
        for _ in 0..WALKING {
            clients.push(connect(apart(url)).await);
        }
        let names = (0..NAMES).map(|number| must(LockName::new(format!("{prefix}{number}"))));
        let names: Vec<_> = names.collect();
        Self::work(Work::Brief, &clients, (&[&names], WALKING), ttl)
    }

    fn work(
        work: Work,
        clients: &[Client],
        (walks, tasks_each): (&[&[LockName]], usize),
        ttl: Duration,
    ) -> Self {
        let names = walks.concat();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            work,
            stopping: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let (leave, told) = watch::channel(());
        let (mut tasks, mut random) = (JoinSet::new(), Jitter::new(names.len() as u64));
        for client in clients {
            for walk in walks.iter().flat_map(|walk| vec![walk; tasks_each]) {
                let seed = random.next_u64();
                let contending = Arc::clone(&shared).contend(
                    client.clone(),
                    walk.to_vec(),
                    ttl,
                    told.clone(),
                    seed,
                );
                // Otherwise all waiters would poll at the same moments.
                let begin = random.between(Duration::ZERO, ASK_INTERVAL);
                tasks.spawn(sleep(begin).then(|()| contending));
            }
        }
        Self { shared, names, leave, tasks }
    }

    /// How many turns have ended.
    pub fn turns(&self) -> usize {
        self.shared.seen().values().map(|seen| seen.history.calls.len()).sum()
    }

    /// Waits until each task has had one more turn, on average.
    pub async fn go_round(&self) {
        let wanted = self.turns() + self.tasks.len();
        until("everybody has had a turn", async || self.turns() >= wanted).await;
    }

    /// Waits until each of the locks has been granted once more.
    pub async fn take_all(&self) {
        self.let_go();
        self.until_taken().await;
    }

    /// Makes all locks change hands this many times while these servers hang.
    pub async fn change_hands_while_hanging(&self, servers: &[&RedisServer], times: u64) {
        let mut random = Jitter::new(times);
        self.until_taken().await;
        for _ in 0..times {
            for server in servers {
                must(server.stop());
            }
            self.let_go();
            sleep(random.between(HANGS.0, HANGS.1)).await;
            for server in servers {
                must(server.cont());
            }
            self.until_taken().await;
            // If the lock has a second holder in error, that shows once the servers continue.
            sleep(random.between(Duration::ZERO, ASK_INTERVAL)).await;
        }
    }

    fn let_go(&self) {
        self.shared.seen().values_mut().for_each(|seen| seen.is_taken = false);
        self.leave.send_replace(());
    }

    /// Waits until each of the locks has a new holder.
    async fn until_taken(&self) {
        let are_taken = async || {
            let seen = self.shared.seen();
            self.names.iter().all(|name| seen.get(name).is_some_and(|seen| seen.is_taken))
        };
        until("each of the locks is taken", are_taken).await;
    }

    /// Ends the tasks, and returns the history of each name.
    pub async fn histories(mut self) -> Vec<History> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.leave.send_replace(());
        while let Some(ended) = must(tokio::time::timeout(PATIENCE, self.tasks.join_next()).await) {
            must(ended);
        }
        std::mem::take(&mut *self.shared.seen()).into_values().map(|seen| seen.history).collect()
    }

    /// Ends a crowd, and returns the history of its lock.
    pub async fn history(self) -> History {
        self.histories().await.pop().unwrap_or_default()
    }

    /// Ends the tasks, and returns the number of grants.
    pub async fn stop(self) -> usize {
        let histories = self.histories().await;
        let grants = histories.iter().map(|history| history.calls.len()).sum();
        let wrong: Vec<_> =
            histories.iter().flat_map(|history| history.violations(PATIENCE)).collect();
        let overlaps = wrong.iter().filter(|wrong| **wrong == Violation::Overlap).count();
        println!("{grants} grants, {overlaps} overlaps");
        assert!(wrong.is_empty(), "in {grants} grants: {wrong:?}");
        grants
    }
}

impl std::fmt::Debug for Contenders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contenders").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<LockName, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, name: &LockName, note: impl FnOnce(&mut Seen)) {
        note(self.seen().entry(name.clone()).or_default());
    }

    async fn contend(
        self: Arc<Self>,
        client: Client,
        walk: Vec<LockName>,
        ttl: Duration,
        mut told: watch::Receiver<()>,
        seed: u64,
    ) {
        let mut random = Jitter::new(seed);
        let begin = random.next_u64() as usize % walk.len();
        for name in walk.iter().cycle().skip(begin) {
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            let (mode, lock) = match self.work {
                Work::Brief | Work::UntilTold => (Mode::Exclusive, client.mutex(name)),
                Work::ReadOrWrite if random.next_u64().is_multiple_of(3) => {
                    (Mode::Exclusive, client.rwlock(name).write())
                }
                Work::ReadOrWrite => (Mode::Shared, client.rwlock(name).read()),
            };
            self.take_turn(lock.ttl(ttl), mode, &mut told, &mut random).await;
        }
    }

    async fn take_turn(
        &self,
        lock: Lock,
        mode: Mode,
        told: &mut watch::Receiver<()>,
        random: &mut Jitter,
    ) {
        let asked = self.began.elapsed();
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            // On a busy machine, the trouble may come before the first contact.
            Err(error) if self.work == Work::ReadOrWrite && error.is_transient() => return,
            Err(error) => panic!("{error:?}"),
        };
        let (name, token, entered) = (guard.name().clone(), guard.token(), self.began.elapsed());
        let least = entered + guard.validity();
        // An earlier signal was for earlier holders.
        told.mark_unchanged();
        self.note(&name, |seen| {
            seen.is_taken = true;
            if mode == Mode::Exclusive {
                seen.history.accepted.push(token);
            }
        });
        let is_lost = self.hold(&guard, told, random).await;
        let (left, validity) = (self.began.elapsed(), guard.validity());
        let was_told = is_lost || !guard.is_held();
        // The validity of a lost lease is not known any more, unless its holder watched it.
        let valid_until = if was_told && !is_lost { least } else { left + validity };
        let hold = Hold { token, entered, left, valid_until, was_told };
        let call = Call { id: guard.holder(), mode, asked, outcome: Outcome::Held(hold) };
        // The faults may cause a release without an answer, or a lost lease.
        let failure = guard.release().await.err();
        self.note(&name, |seen| {
            seen.history.calls.push(call);
            seen.history.errors.extend(failure);
        });
    }

    /// Works under the lock. Returns whether the holder was told that it has lost the lease.
    async fn hold(
        &self,
        guard: &Guard,
        told: &mut watch::Receiver<()>,
        random: &mut Jitter,
    ) -> bool {
        match self.work {
            Work::Brief => tokio::task::yield_now().await,
            Work::ReadOrWrite => sleep(random.between(Duration::ZERO, VISIT)).await,
            Work::UntilTold if self.stopping.load(Ordering::Relaxed) => {}
            Work::UntilTold => {
                return tokio::select! {
                    _ = guard.lost() => true,
                    _ = told.changed() => false,
                };
            }
        }
        false
    }
}
