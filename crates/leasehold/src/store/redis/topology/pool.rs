//! The open connections of a store: one per runtime and server, replaced by the next call once it
//! is dead.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::Shared;
use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use tokio::runtime::{Handle, Id};

use crate::mutex::Mutex;
use crate::store::redis::durability::{Server, ServerDialer};
use crate::store::redis::options::Address;

/// Opens connections for requests.
pub(crate) trait Open: fmt::Debug + Send + Sync + 'static {
    /// What tells where a connection leads: an address, or what stands for one.
    type Target: Clone + fmt::Debug + Eq + Hash + Send;

    /// Opens one on the calling runtime.
    fn open(self: Arc<Self>, place: Self::Target)
    -> BoxFuture<'static, Result<Server, StoreError>>;

    /// How long that may take.
    fn open_limit(&self) -> Duration;
}

impl Open for ServerDialer {
    type Target = Address;

    fn open(self: Arc<Self>, address: Address) -> BoxFuture<'static, Result<Server, StoreError>> {
        Box::pin(async move { self.dial(&address).await })
    }

    fn open_limit(&self) -> Duration {
        self.connect_timeout()
    }
}

type SharedAttempt = Shared<BoxFuture<'static, Result<Arc<Server>, StoreError>>>;

#[derive(Debug)]
enum Slot {
    Open(Arc<Server>),
    /// Callers share one attempt. It is driven by whoever waits for it, so nothing is lost when
    /// one of them gives up.
    Opening {
        since: Instant,
        attempt: SharedAttempt,
    },
}

/// The connections of one store, each made by and used from one runtime only: the sockets of a
/// runtime that has ended are dead, and a keeper must not depend on a runtime that is blocked.
#[derive(Debug)]
pub(crate) struct Pool<O: Open> {
    opener: Arc<O>,
    slots: Mutex<HashMap<(Id, O::Target), Slot>>,
}

impl<O: Open> Pool<O> {
    pub(crate) fn new(opener: Arc<O>) -> Self {
        Self { opener, slots: Mutex::default() }
    }

    /// The connection of the calling runtime to a place, opened if need be.
    pub(crate) async fn to(&self, place: &O::Target) -> Result<Arc<Server>, StoreError> {
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::new(
                StoreErrorKind::Unsupported,
                "a Redis store was called outside of a tokio runtime: use leasehold::blocking",
            ));
        };
        let place = (runtime.id(), place.clone());
        let attempt = match self.open_or_join(&place) {
            Ok(server) => return Ok(server),
            Err(attempt) => attempt,
        };
        let outcome = attempt.clone().await;
        let mut slots = self.slots();
        if let Some(Slot::Opening { attempt: current, .. }) = slots.get(&place)
            && current.ptr_eq(&attempt)
        {
            match &outcome {
                Ok(server) => slots.insert(place, Slot::Open(Arc::clone(server))),
                Err(_) => slots.remove(&place),
            };
        }
        outcome
    }

    fn open_or_join(&self, place: &(Id, O::Target)) -> Result<Arc<Server>, SharedAttempt> {
        let mut slots = self.slots();
        match slots.get(place) {
            Some(Slot::Open(server)) if server.is_alive() => return Ok(Arc::clone(server)),
            Some(Slot::Opening { since, attempt }) if self.is_fresh(*since) => {
                return Err(attempt.clone());
            }
            Some(_) | None => {}
        }
        slots.retain(|_, slot| match slot {
            Slot::Open(server) => server.is_alive(),
            Slot::Opening { since, .. } => self.is_fresh(*since),
        });
        let opening = Arc::clone(&self.opener).open(place.1.clone());
        let attempt = opening.map(|outcome| outcome.map(Arc::new)).boxed().shared();
        slots.insert(
            place.clone(),
            Slot::Opening { since: Instant::now(), attempt: attempt.clone() },
        );
        Err(attempt)
    }

    /// An attempt that nobody has driven for so long would only report its own age.
    fn is_fresh(&self, since: Instant) -> bool {
        since.elapsed() < self.opener.open_limit()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<(Id, O::Target), Slot>> {
        self.slots.lock()
    }
}
