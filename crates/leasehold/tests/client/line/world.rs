//! A store that counts requests and holds them back, clients of it, and calls that the test polls.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::store::{Capabilities, Inbox, Memory, Store};
use leasehold::{Client, Guard};
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, FakeClock, LockName, Message, Now, Operation, StoreError,
    StoreErrorKind,
};
use tokio::sync::watch;

pub(crate) const SLICE: Duration = Duration::from_millis(5);
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A store in memory that records its requests. If a test says so, it holds some back, or holds
/// back or loses the replies to some, or cannot be reached for some. Or it is in trouble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) memory: Memory,
    asked: Arc<Mutex<Vec<&'static str>>>,
    held_back: watch::Sender<Option<&'static str>>,
    answered_late: watch::Sender<Option<&'static str>>,
    unanswered: Arc<Mutex<Option<&'static str>>>,
    refused: Arc<Mutex<Option<&'static str>>>,
    trouble: Arc<Mutex<Option<StoreErrorKind>>>,
    is_mute: Arc<AtomicBool>,
}

impl Watched {
    pub(crate) fn with_clock(clock: &FakeClock) -> Self {
        // Some code takes a time of zero for "never".
        clock.advance(Duration::from_secs(1_000));
        Self { memory: Memory::with_clock(clock.clone()), ..Self::default() }
    }

    /// From now on each request fails with this error.
    pub(crate) fn is(&self, trouble: Option<StoreErrorKind>) {
        *lock(&self.trouble) = trouble;
    }
}

impl Store for Watched {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let kind = match &operation {
            Operation::On { action, .. } => match action {
                Action::End(end) if end.known.is_some() => "release",
                Action::End(_) => "cancel",
                Action::Look { .. } => "look",
                Action::Revoke { .. } => "revoke",
                Action::Take(take) if take.from.is_some() => "adopt",
                Action::Take(take) if take.place.is_some() => "poll",
                Action::Take(_) => "acquire",
                _ => "other",
            },
            Operation::Keep(_) => "renew",
            _ => "other",
        };
        lock(&self.asked).push(kind);
        let trouble = *lock(&self.trouble);
        let mut held_back = self.held_back.subscribe();
        let mut answered_late = self.answered_late.subscribe();
        Box::pin(async move {
            if let Some(kind) = trouble {
                return Err(StoreError::new(kind, format!("10.0.0.5:6379: {kind:?}")));
            }
            let let_on = |held_back: &Option<&str>| *held_back != Some(kind);
            // The wait fails only when the store ends, and then this call ends, too.
            let _ = held_back.wait_for(let_on).await;
            if *lock(&self.refused) == Some(kind) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "it is away"));
            }
            let answer = self.memory.execute(operation).await;
            let _ = answered_late.wait_for(let_on).await;
            match *lock(&self.unanswered) == Some(kind) {
                true => Err(StoreError::new(StoreErrorKind::Timeout, "no answer").maybe_executed()),
                false => answer,
            }
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move {
            let (inner, is_mute) = (self.memory.inbox(client).await?, Arc::clone(&self.is_mute));
            Ok(Box::new(WatchedInbox { inner, is_mute }) as Box<dyn Inbox>)
        })
    }
}

struct WatchedInbox {
    inner: Box<dyn Inbox>,
    is_mute: Arc<AtomicBool>,
}

impl Inbox for WatchedInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let message = self.inner.next().await;
                if !self.is_mute.load(Ordering::Relaxed) {
                    return message;
                }
            }
        })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn must<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error:?}"))
}

/// A clock, a store on that clock, and clients of the store.
pub(crate) struct World {
    pub(crate) clock: FakeClock,
    pub(crate) store: Watched,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = FakeClock::new();
        let store = Watched::with_clock(&clock);
        Self { clock, store }
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(SLICE).await
    }

    pub(crate) async fn client_with(&self, slice: Duration) -> Client {
        let builder = Client::builder().store(self.store.clone()).clock(self.clock.clone());
        must(builder.slice(slice).build().await)
    }

    /// The requests to the store since the last call.
    pub(crate) fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *lock(&self.store.asked))
    }

    pub(crate) fn lose_messages(&self) {
        self.store.is_mute.store(true, Ordering::Relaxed);
    }

    /// From now on these requests are executed and not answered.
    pub(crate) fn lose_replies(&self, kind: Option<&'static str>) {
        *lock(&self.store.unanswered) = kind;
    }

    /// From now on the store cannot be reached for these requests.
    pub(crate) fn refuse(&self, kind: Option<&'static str>) {
        *lock(&self.store.refused) = kind;
    }

    pub(crate) fn hold_back(&self, kind: Option<&'static str>) {
        self.store.held_back.send_replace(kind);
    }

    /// From now on these requests are executed, and answered when the test says so.
    pub(crate) fn hold_back_replies(&self, kind: Option<&'static str>) {
        self.store.answered_late.send_replace(kind);
    }

    /// Whether nobody holds the name or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        let record = self.store.memory.record(&must(LockName::new("a")));
        record.is_none_or(|record| !record.is_in_use(Now::of(&self.clock)))
    }

    pub(crate) async fn waiting_at_the_store(&self) -> u32 {
        let looks = Client::builder().store(self.store.memory.clone()).clock(self.clock.clone());
        must(must(looks.build().await).admin().inspect("a").await).waiting
    }
}

/// A call that is polled when the test says so.
pub(crate) struct Call(pub(crate) Pin<Box<dyn Future<Output = leasehold::Result<Guard>>>>);

impl Call {
    pub(crate) fn new(client: &Client) -> Self {
        let lock = client.mutex("a").ttl(TTL);
        Self(Box::pin(async move { lock.acquire().await }))
    }

    pub(crate) fn poll(&mut self) -> Option<leasehold::Result<Guard>> {
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// A call that has begun and waits.
    pub(crate) async fn waiting(client: &Client) -> Self {
        let mut call = Self::new(client);
        assert!(call.poll().is_none());
        settle().await;
        assert!(call.poll().is_none());
        call
    }

    pub(crate) fn granted(&mut self) -> Guard {
        self.poll().map_or_else(|| panic!("it has no turn"), must)
    }
}

/// Lets every other task run until it waits for something.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
