//! The open connections of a store: one per runtime and server, replaced by the next call once it
//! is dead.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Either, Shared, ready};
use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use tokio::runtime::{Handle, Id};
use tokio::time::timeout;

use crate::background;
use crate::mutex::Mutex;
use crate::store::redis::durability::{Server, ServerDialer};
use crate::store::redis::options::Address;

/// How long a keeper waits for its own connection if another runtime has one: 100 ms, less than any
/// renewal may take.
const OWN_PATIENCE: Duration = Duration::from_millis(100);

/// Opens connections for requests.
pub(crate) trait Open: fmt::Debug + Send + Sync + 'static {
    /// The target of a connection: an address, or a stand-in for one.
    type Target: Clone + fmt::Debug + Eq + Send;

    /// Opens a connection on the calling runtime.
    fn open(self: Arc<Self>, place: Self::Target)
    -> BoxFuture<'static, Result<Server, StoreError>>;

    /// How long opening may take.
    fn open_limit(&self) -> Duration;
}

impl Open for ServerDialer {
    type Target = Address;

    fn open(self: Arc<Self>, address: Address) -> BoxFuture<'static, Result<Server, StoreError>> {
        Box::pin(async move { self.dial(&address).await })
    }

    fn open_limit(&self) -> Duration {
        self.dialer.connect_timeout
    }
}

/// A server, or why it cannot be reached.
pub(crate) type Opened = Result<Arc<Server>, StoreError>;

/// A server to which a connection is being opened. The attempt goes on if this is dropped.
pub(crate) type Opening<'a> = BoxFuture<'a, Opened>;

type SharedAttempt = Shared<BoxFuture<'static, Opened>>;

#[derive(Debug)]
enum Slot {
    Open(Arc<Server>),
    /// An attempt that callers share. A task of the runtime drives it to its end: a caller of a
    /// quorum leaves as soon as a majority has answered, but the other nodes must be connected,
    /// too.
    Opening {
        since: Instant,
        attempt: SharedAttempt,
    },
}

/// A list, because it is short: a search for a key would have to copy the key first.
type Slots<T> = Mutex<Vec<((Id, T), Slot)>>;

/// The connections of one store. Each is made and used by one runtime: the sockets of a runtime
/// that has ended are dead, and a keeper must not depend on a runtime that is blocked. But if the
/// server takes no more clients, keepers renew over the connection of another runtime.
#[derive(Debug)]
pub(crate) struct Pool<O: Open> {
    pub(crate) opener: Arc<O>,
    slots: Arc<Slots<O::Target>>,
}

impl<O: Open> Pool<O> {
    pub(crate) fn new(opener: O) -> Self {
        Self { opener: Arc::new(opener), slots: Arc::default() }
    }

    /// The connection of the calling runtime to a place, opened if necessary.
    pub(crate) fn to(&self, place: &O::Target) -> impl Future<Output = Opened> + use<O> {
        let Ok(runtime) = Handle::try_current() else {
            let why =
                "a Redis store was called outside of a tokio runtime: use leasehold::blocking";
            return Either::Left(ready(Err(StoreError::new(StoreErrorKind::Unsupported, why))));
        };
        let attempt = match self.open_or_join(&runtime, place) {
            Ok(server) => return Either::Left(ready(Ok(server))),
            Err(attempt) => attempt,
        };
        let other = background::is_this_thread().then(|| self.of_another(place)).flatten();
        let Some(other) = other else { return Either::Right(attempt.boxed()) };
        let attempt = timeout(OWN_PATIENCE, attempt);
        let either = attempt.map(|own| Ok(own.ok().and_then(Result::ok).unwrap_or(other)));
        Either::Right(either.boxed())
    }

    /// An open connection of another runtime.
    fn of_another(&self, place: &O::Target) -> Option<Arc<Server>> {
        self.slots.lock().iter().find_map(|((_, at), slot)| match slot {
            Slot::Open(server) if at == place && server.is_alive() => Some(Arc::clone(server)),
            Slot::Open(_) | Slot::Opening { .. } => None,
        })
    }

    fn open_or_join(
        &self,
        runtime: &Handle,
        place: &O::Target,
    ) -> Result<Arc<Server>, SharedAttempt> {
        let mut slots = self.slots.lock();
        let mut found = slots.iter().filter(|((id, at), _)| *id == runtime.id() && at == place);
        match found.next() {
            Some((_, Slot::Open(server))) if server.is_alive() => return Ok(Arc::clone(server)),
            Some((_, Slot::Opening { since, attempt })) if self.is_fresh(*since) => {
                return Err(attempt.clone());
            }
            Some(_) | None => {}
        }
        slots.retain(|(_, slot)| match slot {
            Slot::Open(server) => server.is_alive(),
            Slot::Opening { since, .. } => self.is_fresh(*since),
        });
        let at = (runtime.id(), place.clone());
        let since = Instant::now();
        let (opener, waiting) = (Arc::clone(&self.opener), Arc::downgrade(&self.slots));
        let opening = runtime.spawn(open(opener, waiting, at.clone(), since));
        // An attempt ends without an outcome if its runtime ends.
        let stopped = |why| format!("connecting was given up: {why}");
        let stopped = move |why| Err(StoreError::new(StoreErrorKind::Unreachable, stopped(why)));
        let attempt = opening.map(move |ended| ended.unwrap_or_else(stopped));
        let attempt = attempt.boxed().shared();
        slots.push((at, Slot::Opening { since, attempt: attempt.clone() }));
        Err(attempt)
    }

    /// Whether an attempt is recent. An older attempt was not driven by its runtime in time, so its
    /// error would say nothing about the server.
    fn is_fresh(&self, since: Instant) -> bool {
        since.elapsed() < self.opener.open_limit()
    }
}

/// Opens a connection, and replaces the attempt with it.
async fn open<O: Open>(
    opener: Arc<O>,
    slots: Weak<Slots<O::Target>>,
    at: (Id, O::Target),
    began: Instant,
) -> Opened {
    let outcome = opener.open(at.1.clone()).await.map(Arc::new);
    let Some(slots) = slots.upgrade() else { return outcome };
    let mut slots = slots.lock();
    let is_own = |slot: &Slot| matches!(slot, Slot::Opening { since, .. } if *since == began);
    if let Some(own) = slots.iter().position(|(place, slot)| *place == at && is_own(slot)) {
        match &outcome {
            Ok(server) => slots[own].1 = Slot::Open(Arc::clone(server)),
            Err(_) => drop(slots.swap_remove(own)),
        }
    }
    outcome
}
