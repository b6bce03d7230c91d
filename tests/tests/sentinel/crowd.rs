//! Many tasks that take turns at one lock while something happens to the servers, and the history
//! of their turns.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use leasehold::admin::HolderId;
use leasehold::lease::Mode;
use leasehold::{Client, Error, Guard};
use leasehold_testkit::history::{Call, History, Hold, Outcome};
use leasehold_testkit::must;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{PATIENCE, SHORT, connect, soon};

/// How long nobody may hold while somebody waits: a failover and the lease of a lost holder, on a
/// busy machine.
pub(crate) const LONGEST_GAP: Duration = Duration::from_secs(45);

/// Clients, and tasks of each.
const CLIENTS: u32 = 2;
const TASKS: u32 = 3;

/// Tasks that go on taking turns until they are stopped.
pub(crate) struct Crowd {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    began: Instant,
    calls: Mutex<Vec<Call>>,
    stopping: AtomicBool,
}

impl Crowd {
    /// Lets three tasks of each of two clients begin.
    pub(crate) async fn start(url: &str) -> Self {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            calls: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..CLIENTS {
            let client = connect(url).await;
            for _ in 0..TASKS {
                let (client, shared) = (client.clone(), Arc::clone(&shared));
                tasks.spawn(async move {
                    while !shared.stopping.load(Ordering::Relaxed) {
                        shared.take_turn(&client).await;
                    }
                });
            }
        }
        Self { shared, tasks }
    }

    /// Waits until each task has had one more turn, on average.
    pub(crate) async fn go_round(&self) {
        let wanted = self.turns() + (CLIENTS * TASKS) as usize;
        let since = Instant::now();
        while self.turns() < wanted {
            assert!(since.elapsed() < PATIENCE, "nobody gets in");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the crowd, and returns its history.
    pub(crate) async fn stop(mut self) -> History {
        self.shared.stopping.store(true, Ordering::Relaxed);
        while let Some(ended) = soon(self.tasks.join_next()).await {
            must(ended);
        }
        let calls = std::mem::take(&mut *self.shared.calls.lock().unwrap());
        History { calls, ..History::default() }
    }

    fn turns(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }
}

impl Shared {
    async fn take_turn(&self, client: &Client) {
        let asked = self.began.elapsed();
        let guard = must(client.mutex("crowd").ttl(SHORT).acquire().await);
        let entered = self.began.elapsed();
        tokio::task::yield_now().await;
        let (id, hold) = self.leave(&guard, entered);
        // These tests may leave a release without an answer, or cost the lease.
        match guard.release().await {
            Ok(()) | Err(Error::Indeterminate { .. } | Error::Lost { .. } | Error::Store(_)) => {}
            Err(other) => panic!("{other}"),
        }
        let call = Call { id, mode: Mode::Exclusive, asked, outcome: Outcome::Held(hold) };
        self.calls.lock().unwrap().push(call);
    }

    fn leave(&self, guard: &Guard, entered: Duration) -> (HolderId, Hold) {
        let left = self.began.elapsed();
        let validity = guard.validity();
        let lost = pin!(guard.lost());
        let hold = Hold {
            token: guard.token(),
            entered,
            left,
            valid_until: if validity.is_zero() { entered } else { left + validity },
            was_told: lost.poll(&mut Context::from_waker(Waker::noop())).is_ready(),
        };
        (guard.holder(), hold)
    }
}
