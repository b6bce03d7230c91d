//! Clients that want the same few locks and release them when a test says so. Each promise of their
//! guards is recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use leasehold::lease::Mode;
use leasehold::{Client, Guard, Lock, LockName};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::POLL_INTERVAL;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::harness::{PATIENCE, must, until};
use crate::history::{Call, History, Hold, Outcome, Violation};
use crate::server::RedisServer;

/// How long a server hangs: about as long as a grant waits for its replicas by default. That is 250
/// ms, and up to 100 ms until the primary notices the timeout.
const HANGS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(450));

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
    stopping: AtomicBool,
    seen: Mutex<BTreeMap<LockName, Seen>>,
}

/// The calls and grants of one name.
#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    /// A client was granted the name after the last request to all holders to release.
    is_taken: bool,
}

impl Contenders {
    /// Lets every client want each of these locks.
    pub fn start(clients: &[Client], names: &[LockName], ttl: Duration) -> Self {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            stopping: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let (leave, told) = watch::channel(());
        let (mut tasks, mut random) = (JoinSet::new(), Jitter::new(names.len() as u64));
        for client in clients {
            for name in names {
                let (lock, shared) = (client.mutex(name).ttl(ttl), Arc::clone(&shared));
                // Otherwise all waiters would poll at the same moments.
                let begin = random.between(Duration::ZERO, POLL_INTERVAL);
                let contending = shared.contend(lock, told.clone());
                tasks.spawn(sleep(begin).then(|()| contending));
            }
        }
        Self { shared, names: names.to_vec(), leave, tasks }
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
            sleep(random.between(Duration::ZERO, POLL_INTERVAL)).await;
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

    /// Ends the tasks, and returns the number of grants.
    ///
    /// # Panics
    ///
    /// If two guards say that they held one lock at the same time, or if anything else happened
    /// that must not.
    pub async fn stop(mut self) -> usize {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.leave.send_replace(());
        while let Some(ended) = must(tokio::time::timeout(PATIENCE, self.tasks.join_next()).await) {
            must(ended);
        }
        let (mut grants, mut wrong) = (0, Vec::new());
        for (name, seen) in std::mem::take(&mut *self.shared.seen()) {
            grants += seen.calls.len();
            let history = History { calls: seen.calls, ..History::default() };
            let violations = history.violations(PATIENCE);
            wrong.extend(violations.into_iter().map(|violation| (name.clone(), violation)));
        }
        println!("{grants} grants, {} overlaps", overlaps(&wrong));
        assert!(wrong.is_empty(), "in {grants} grants: {wrong:?}");
        grants
    }
}

fn overlaps(wrong: &[(LockName, Violation)]) -> usize {
    wrong.iter().filter(|(_, violation)| *violation == Violation::Overlap).count()
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

    async fn contend(self: Arc<Self>, lock: Lock, mut told: watch::Receiver<()>) {
        while !self.stopping.load(Ordering::Relaxed) {
            let asked = self.began.elapsed();
            let guard = must(lock.acquire().await);
            let entered = self.began.elapsed();
            // An earlier signal was for earlier holders.
            told.mark_unchanged();
            self.seen().entry(guard.name().clone()).or_default().is_taken = true;
            let was_lost = match self.stopping.load(Ordering::Relaxed) {
                true => false,
                false => tokio::select! {
                    _ = guard.lost() => true,
                    _ = told.changed() => false,
                },
            };
            let hold = self.promised(&guard, entered, was_lost);
            let (id, mode, outcome) = (guard.holder(), Mode::Exclusive, Outcome::Held(hold));
            let call = Call { id, mode, asked, outcome };
            self.seen().entry(guard.name().clone()).or_default().calls.push(call);
            // The faults may cause a release without an answer, or a lost lease.
            drop(guard.release().await);
        }
    }

    /// A hold that ends now, or that has ended already. It was valid as long as its guard believed.
    fn promised(&self, guard: &Guard, entered: Duration, was_lost: bool) -> Hold {
        let (left, validity) = (self.began.elapsed(), guard.validity());
        let was_told = was_lost || validity.is_zero();
        let valid_until = left + validity;
        Hold { token: guard.token(), entered, left, valid_until, was_told }
    }
}
