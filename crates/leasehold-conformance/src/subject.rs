//! A store under test and its clock.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use leasehold::event::Observer;
use leasehold::store::{Capabilities, Memory, Store};
use leasehold::time::{Clock, FakeClock};
use leasehold::{Client, ClientBuilder, LockName};

/// How often every other task may run before the test moves the clock. No chain of wake-ups within
/// one step is longer than this.
const SETTLE_TURNS: u32 = 32;

/// How far the test moves the clock when no timer is pending: 10 ms.
const DEFAULT_STEP: Duration = Duration::from_millis(10);

/// How long a test waits for anything: 60 s, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that several clients share.
#[derive(Clone, Debug)]
pub struct SharedStore(Arc<dyn Store>);

impl SharedStore {
    /// Shares a store.
    pub fn new(store: impl Into<Box<dyn Store>>) -> Self {
        Self(store.into().into())
    }
}

impl Store for SharedStore {
    crate::passes_on!(0: capabilities, clock_offset, end_quarantine, execute, forget, inbox);
    crate::passes_on!(0: prepare, publish, shard, subscribe, warnings);
    #[cfg(unix)]
    crate::passes_on!(0: lifeline);
}

/// A store under test. Its clock is the machine's, or a fake clock that only the test moves.
pub struct Subject {
    store: SharedStore,
    clock: Option<FakeClock>,
    _keeps: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// The memory store, on a clock that only the test moves.
    pub fn memory() -> Self {
        let clock = FakeClock::new();
        Self::fake(Memory::with_clock(clock.clone()), clock)
    }

    /// A store on a clock that only the test moves.
    pub fn fake(store: impl Into<Box<dyn Store>>, clock: FakeClock) -> Self {
        // Some stores use a time of zero for "never", so the clock starts later.
        clock.advance(Duration::from_secs(1_000));
        Self { store: SharedStore::new(store), clock: Some(clock), _keeps: Box::new(()) }
    }

    /// A store in real time. `needs` (a server, a directory) lives as long as the subject.
    pub fn real(store: impl Into<Box<dyn Store>>, needs: impl Any + Send + Sync) -> Self {
        Self { store: SharedStore::new(store), clock: None, _keeps: Box::new(needs) }
    }

    /// The same subject, which also keeps `needs` (such as the store's directory) alive.
    #[must_use]
    pub fn keeping(mut self, needs: impl Any + Send + Sync) -> Self {
        self._keeps = Box::new(needs);
        self
    }

    /// The store.
    pub fn store(&self) -> SharedStore {
        self.store.clone()
    }

    /// Whether the store runs on the machine's clock.
    pub(crate) fn is_real(&self) -> bool {
        self.clock.is_none()
    }

    /// The capabilities of the store.
    pub fn can(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Another client of the store.
    pub async fn client(&self) -> Client {
        self.client_of(self.store()).await
    }

    /// Other clients of the store.
    pub(crate) async fn clients(&self, count: u32) -> Vec<Client> {
        join_all((0..count).map(|_| self.client())).await
    }

    /// Another client, which uses the given store instead, such as one that wraps the subject's.
    pub async fn client_of(&self, store: impl Into<Box<dyn Store>>) -> Client {
        self.built(Client::builder().store(store)).await
    }

    /// Another client, whose observer gets every event.
    pub async fn observed_client(&self, observer: impl Observer) -> Client {
        self.built(Client::builder().store(self.store()).observer(observer)).await
    }

    /// Another client without a local line, so that each caller queues in the store.
    pub async fn queueing_client(&self) -> Client {
        self.built(Client::builder().store(self.store()).slice(Duration::ZERO)).await
    }

    pub(crate) async fn built(&self, builder: ClientBuilder) -> Client {
        let client = match &self.clock {
            Some(clock) => builder.clock(clock.clone()).build().await,
            None => builder.build().await,
        };
        must(client)
    }

    /// A name that no other test uses.
    pub fn fresh_name(&self, what: &str) -> LockName {
        must(LockName::new(format!("{what}/{:032x}", fresh_number())))
    }

    /// Lets time pass.
    pub async fn pass(&self, span: Duration) {
        let Some(clock) = &self.clock else {
            tokio::time::sleep(span).await;
            return;
        };
        let end = clock.now() + span;
        settle().await;
        while clock.now() < end {
            let next = clock.next_timer().map_or(end, |at| at.min(end));
            clock.advance(next.saturating_since(clock.now()));
            settle().await;
        }
    }

    /// Waits for a future, and lets time pass if that is needed.
    pub async fn drive<T>(&self, future: impl Future<Output = T>) -> T {
        self.drive_within(PATIENCE, future).await
    }

    /// Waits for a future that takes no longer than `patience`, and lets time pass.
    pub async fn drive_within<T>(&self, patience: Duration, future: impl Future<Output = T>) -> T {
        let Some(clock) = &self.clock else {
            let Ok(output) = tokio::time::timeout(patience, future).await else {
                panic!("this took longer than {patience:?}");
            };
            return output;
        };
        let mut future = pin!(future);
        let end = clock.now() + patience;
        loop {
            tokio::select! {
                biased;
                output = &mut future => return output,
                () = settle() => assert!(clock.now() < end, "this took longer than {patience:?}"),
            }
            let step = clock.next_timer().map(|at| at.saturating_since(clock.now()));
            clock.advance(step.filter(|step| !step.is_zero()).unwrap_or(DEFAULT_STEP));
        }
    }

    /// Checks a condition repeatedly until it is true.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, is_so: impl Fn() -> F) {
        for _ in 0..PATIENCE.as_millis() / DEFAULT_STEP.as_millis() {
            if self.drive(is_so()).await {
                return;
            }
            self.pass(DEFAULT_STEP).await;
        }
        panic!("it never came to this: {what}");
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Lets every other task run until it waits for something.
async fn settle() {
    for _ in 0..SETTLE_TURNS {
        tokio::task::yield_now().await;
    }
}

/// A number that no other test and no other process gets.
pub fn fresh_number() -> u128 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since_1970.map_or(0, |span| span.as_nanos());
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    (nanos << 48) | (u128::from(std::process::id()) << 16) | u128::from(drawn & 0xffff)
}

/// The value of a result that must be `Ok`.
///
/// # Panics
///
/// If the result is an error.
#[track_caller]
pub(crate) fn must<T, E: fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error:?}"),
    }
}
