//! An unreliable store: it loses, delays and repeats requests, answers and messages.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::admin::ClientId;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::{Inbox, Store};
use leasehold::time::{Clock, Instant};
use leasehold_core::backoff::Jitter;
use leasehold_core::{Answer, BoxFuture, Message, Operation};

/// How often each fault happens, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A request is not executed, or only later, and its sender learns nothing.
    pub lose_request: u64,
    /// A request is executed and its answer lost.
    pub lose_answer: u64,
    /// A message does not arrive.
    pub lose_message: u64,
    /// The connection is cut when a request is sent: everything is lost for a while.
    pub cut: u64,
    /// The longest time for which the connection stays cut, and the least time for which it then
    /// works. Without that least time, cuts in a row could last for any time.
    pub cut_for: Duration,
    /// The longest time that a request, an answer or a message takes.
    pub delay: Duration,
    /// How long a sender waits for an answer that was lost.
    pub timeout: Duration,
}

/// A store behind faults that a seed decides. Clones share the store and the faults.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    faults: Faults,
    healed: AtomicBool,
    jitter: Mutex<Jitter>,
    /// Until then, nothing passes.
    cut_until: Mutex<Instant>,
    /// Requests that arrive later, and whose senders got no answer.
    late: Mutex<Vec<Operation>>,
}

impl Shared {
    /// Whether an event happens that happens in this percentage of all cases.
    fn happens(&self, percent: u64) -> bool {
        !self.healed.load(Ordering::Relaxed) && lock(&self.jitter).next_u64() % 100 < percent
    }

    fn cut(&self, span: Duration) {
        *lock(&self.cut_until) = self.clock.now() + span;
    }

    fn is_cut(&self) -> bool {
        let (now, until) = (self.clock.now(), *lock(&self.cut_until));
        let holds_for_long = now >= until + self.faults.cut_for;
        if self.happens(self.faults.cut) && holds_for_long {
            let span = lock(&self.jitter).between(Duration::ZERO, self.faults.cut_for);
            self.cut(span);
        }
        now < *lock(&self.cut_until)
    }

    async fn delay(&self) {
        let longest = self.faults.delay;
        if longest.is_zero() || self.healed.load(Ordering::Relaxed) {
            return;
        }
        let delay = lock(&self.jitter).between(Duration::ZERO, longest);
        self.clock.sleep_until(self.clock.now() + delay).await;
    }

    async fn no_answer(&self) -> StoreError {
        self.clock.sleep_until(self.clock.now() + self.faults.timeout).await;
        StoreError::new(StoreErrorKind::Timeout, "the answer was lost on purpose").maybe_executed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faulty {
    /// Puts faults before a store.
    pub fn new(inner: impl Store, clock: impl Clock, faults: Faults, seed: u64) -> Self {
        let shared = Shared {
            clock: Arc::new(clock),
            faults,
            healed: AtomicBool::new(false),
            jitter: Mutex::new(Jitter::new(seed)),
            cut_until: Mutex::default(),
            late: Mutex::default(),
        };
        Self { inner: Arc::new(inner), shared: Arc::new(shared) }
    }

    /// Lets nothing pass for a while.
    pub fn cut(&self, span: Duration) {
        self.shared.cut(span);
    }

    /// From now on nothing goes wrong. Requests that are late never arrive.
    pub fn heal(&self) {
        self.shared.healed.store(true, Ordering::Relaxed);
        self.cut(Duration::ZERO);
        lock(&self.shared.late).clear();
    }

    /// Sometimes executes one of the late requests.
    async fn deliver_late(&self) {
        let late = if self.shared.happens(30) { lock(&self.shared.late).pop() } else { None };
        if let Some(operation) = late {
            // The caller of this answer has gone.
            drop(self.inner.execute(operation).await);
        }
    }

    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        let shared = &self.shared;
        shared.delay().await;
        if shared.is_cut() {
            return Err(shared.no_answer().await);
        }
        self.deliver_late().await;
        if shared.happens(shared.faults.lose_request) {
            if shared.happens(50) {
                lock(&shared.late).push(operation);
            }
            return Err(shared.no_answer().await);
        }
        let answer = self.inner.execute(operation).await?;
        shared.delay().await;
        if shared.is_cut() || shared.happens(shared.faults.lose_answer) {
            return Err(shared.no_answer().await);
        }
        Ok(answer)
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Store for Faulty {
    leasehold_conformance::passes_on!(inner: capabilities, clock_offset, end_quarantine, forget);
    leasehold_conformance::passes_on!(inner: lifeline, publish, shard, subscribe, warnings);

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.pass(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move {
            let inner = self.inner.inbox(client).await?;
            let shared = Arc::clone(&self.shared);
            Ok(Box::new(FaultyInbox { inner, shared }) as Box<dyn Inbox>)
        })
    }
}

struct FaultyInbox {
    inner: Box<dyn Inbox>,
    shared: Arc<Shared>,
}

impl Inbox for FaultyInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let message = self.inner.next().await;
                let is_lost = self.shared.happens(self.shared.faults.lose_message);
                if !is_lost && !self.shared.is_cut() {
                    return message;
                }
            }
        })
    }
}
