//! Events of leases, for logs, traces and metrics.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod tracing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Error, FencingToken, HolderId, LockName, LossReason, Mode, StoreError};

#[cfg(feature = "metrics")]
pub use self::metrics::MetricsObserver;
#[cfg(feature = "tracing")]
pub use self::tracing::TracingObserver;

/// The facts of a call: what it asked for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestFacts<'a> {
    /// The name of the lock.
    pub name: &'a LockName,
    /// The mode that the call asked for.
    pub mode: Mode,
    /// The label that the caller gave by [`Lock::label`](crate::Lock::label).
    pub label: Option<&'a str>,
}

/// The lease that an event is about, as it is at that moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeaseFacts<'a> {
    /// The holder, the same as [`Guard::holder`](crate::Guard::holder).
    pub holder: HolderId,
    /// The name of the lock.
    pub name: &'a LockName,
    /// The mode in which it is held.
    pub mode: Mode,
    /// The label that the caller gave by [`Lock::label`](crate::Lock::label).
    pub label: Option<&'a str>,
    /// The fencing token of the lease.
    pub token: FencingToken,
}

/// Something that happened to a lease of this client, to a call that asks for one, or to its store.
///
/// # Calls
///
/// A call that requests a lease ends with exactly one event: [`Granted`](Self::Granted) or
/// [`Failed`](Self::Failed). If the call has to wait, [`Waiting`](Self::Waiting) with the same
/// `call` comes before. A call for several names is reported as one call for each of them.
///
/// # Leases
///
/// [`Granted`](Self::Granted) reports each lease. Exactly one later event with the same holder
/// reports its end: [`Released`](Self::Released) or [`Lost`](Self::Lost). Between the two, and now
/// and then just after the end, come [`Renewed`](Self::Renewed) and [`Overdue`](Self::Overdue).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call waits. Reported when the call joins the queue or, where there is no queue, waits to
    /// ask again; and whenever the `cause` changes.
    /// [`Admin::inspect`](crate::admin::Admin::inspect) says who holds the lock.
    #[non_exhaustive]
    Waiting {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The largest number of waiters that can be ahead of this call, in the store's queue or in
        /// the line of the same client; `None` where there is no queue.
        ahead: Option<u32>,
        /// The token of a lease of the same client that is in the way. Between two tasks this is
        /// ordinary contention. But a task that waits for itself waits for ever. Examples are a
        /// second acquire of a mutex, a write lock while the task reads, and a second read lock
        /// while a writer waits. Such a task needs [`Guard::reenter`](crate::Guard::reenter).
        own: Option<FencingToken>,
        /// What is in the way other than a holder. The store is in trouble: it is away, in
        /// quarantine, or without enough replicas or nodes. Or a semaphore is in use with another
        /// capacity.
        cause: Option<&'a StoreError>,
    },
    /// A lease was granted and has reached the caller that asked for it.
    #[non_exhaustive]
    Granted {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The time from the call to the grant; for several names, to the last grant.
        waited: Duration,
    },
    /// A lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The rest of the validity of the lease.
        validity: Duration,
    },
    /// A renewal failed, and the lease is still valid. Reported for the first renewal that fails,
    /// and again if the kind of error changes before a renewal succeeds.
    #[non_exhaustive]
    Overdue {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The rest of the validity of the lease.
        validity: Duration,
        /// The error of the renewal.
        cause: &'a StoreError,
    },
    /// A lease ended before its holder released it.
    #[non_exhaustive]
    Lost {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The time from the grant to the end.
        held: Duration,
        /// The reason for the loss.
        reason: LossReason,
        /// The error of its renewals, if they failed and the lease [expired](LossReason::Expired).
        cause: Option<&'a StoreError>,
    },
    /// A lease was released by its holder, or handed out by
    /// [`Guard::into_lease`](crate::Guard::into_lease).
    #[non_exhaustive]
    Released {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The time from the grant to the release.
        held: Duration,
    },
    /// A call ended without a lease.
    #[non_exhaustive]
    Failed {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The time since the call began.
        waited: Duration,
        /// How the call ended: `busy`, if somebody else has the lock and the call was a try;
        /// `timeout`, at its limit; `cancelled`, because its future was dropped or its blocking
        /// call was cancelled; `error` otherwise.
        outcome: &'static str,
        /// The error that the caller gets; `None` for `busy` and `cancelled`.
        error: Option<&'a Error>,
    },
    /// A request to the store was answered, or failed. A request whose caller no longer waits is
    /// not reported.
    #[non_exhaustive]
    RoundTrip {
        /// The request: `take`, `keep`, `end` and so on, as
        /// [`Operation::as_str`](crate::store::protocol::Operation::as_str).
        operation: &'static str,
        /// The name of the lock, if the request was about one.
        name: Option<&'a LockName>,
        /// The time from the request to its end.
        took: Duration,
        /// The error, if the request failed.
        error: Option<&'a StoreError>,
        /// If the store could not be reached, or did not answer in time, and answers again: the
        /// time since the first request that failed. If the store is made of several servers, this
        /// is about one of them.
        away: Option<Duration>,
    },
    /// Something weakens a promise, or hinders a caller. The text says what, with the remedy.
    #[non_exhaustive]
    Warning {
        /// The text of the warning.
        text: &'a str,
    },
}

/// Receives every [`Event`]. Logs, traces and metrics all come from observers.
///
/// A client may have [several](crate::ClientBuilder::observer). Observers run in the keeper and in
/// the tasks that use the library. So an observer must be quick and must not block: while it runs
/// in the keeper, no lease of the process is renewed. A panic of the observer ends in that call,
/// costs no lease, and is reported once, as a [`Warning`](Event::Warning).
pub trait Observer: Send + Sync + 'static {
    /// Called once, when a client is built with this observer, before any event.
    fn begin(&self) {}

    /// Receives an event.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// The observers of a client: each receives every event, even if another observer panics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers(Arc<[Shielded]>);

impl Observers {
    pub(crate) fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        let shield = |observer| Shielded { observer, has_panicked: AtomicBool::new(false) };
        let observers = Self(observers.into_iter().map(shield).collect());
        for observer in &*observers.0 {
            panics(|| observer.observer.begin());
        }
        observers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        for observer in &*self.0 {
            observer.observe(event);
        }
    }
}

/// An observer whose panics are caught at each call.
#[derive(Debug)]
struct Shielded {
    observer: Box<dyn Observer>,
    has_panicked: AtomicBool,
}

impl Shielded {
    fn observe(&self, event: &Event<'_>) {
        if panics(|| self.observer.observe(event))
            && !self.has_panicked.swap(true, Ordering::Relaxed)
        {
            let text = "the observer panicked and has missed an event: mend it";
            panics(|| self.observer.observe(&Event::Warning { text }));
        }
    }
}

/// Calls a function of the user, and returns whether it panicked. The panic ends here, after the
/// panic hook of the process has reported it. State that the function left half done is the user's
/// concern.
pub(crate) fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

debug_as!(dyn Observer => |_, f| f.write_str("Observer"));
