//! Events of leases, for logs, traces and metrics.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod tracing;

use std::fmt;
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
    /// The mode in which it is held, or was held at its end.
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
/// [`Acquiring`](Self::Acquiring) reports each call that requests a lease. Exactly one event with
/// the same `call` reports its end: [`Granted`](Self::Granted), [`Busy`](Self::Busy),
/// [`TimedOut`](Self::TimedOut), [`Cancelled`](Self::Cancelled) or [`Failed`](Self::Failed). A call
/// for several names is reported as one call for each of them.
///
/// # Leases
///
/// [`Granted`](Self::Granted) reports each lease. Exactly one later event with the same holder
/// reports its end: [`Released`](Self::Released) or [`Lost`](Self::Lost). Between the two, and now
/// and then just after the end, come [`Renewed`](Self::Renewed), [`Overdue`](Self::Overdue) and
/// [`ModeChanged`](Self::ModeChanged).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call began that requests a lease: an acquire, a try or an adoption.
    #[non_exhaustive]
    Acquiring {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
    },
    /// A try ended because somebody else has the lock or waits for it.
    #[non_exhaustive]
    Busy {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The time since the call began.
        waited: Duration,
    },
    /// A call ended because its future was dropped, or because a blocking call was cancelled.
    /// Nothing is held.
    #[non_exhaustive]
    Cancelled {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The time since the call began.
        waited: Duration,
    },
    /// A waiting call rides out trouble with the store: the store is away, in quarantine, or
    /// without enough replicas or nodes. Reported for each request that fails, about once a second;
    /// [`Waiting`](Event::Waiting) follows once the store answers again and another holder is in
    /// the way. If several calls wait in a queue for the same name, only one of them is reported.
    #[non_exhaustive]
    Delayed {
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The answer of the store, or the reason why no answer came.
        cause: &'a StoreError,
        /// The time since trouble of this kind began; zero in the first report of it.
        lasting: Duration,
    },
    /// A call ended with an error other than [`Error::Timeout`].
    #[non_exhaustive]
    Failed {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The time since the call began.
        waited: Duration,
        /// The error that the caller gets.
        error: &'a Error,
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
    /// A reader has become the writer, or a writer a reader.
    #[non_exhaustive]
    ModeChanged {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The mode before the change.
        from: Mode,
    },
    /// A renewal failed, and the lease is still valid. Reported for each renewal that fails.
    #[non_exhaustive]
    Overdue {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The rest of the validity of the lease.
        validity: Duration,
        /// The error of the renewal.
        cause: &'a StoreError,
        /// The time since renewals began to fail with errors of this kind; zero for the first of
        /// them.
        lasting: Duration,
    },
    /// A call waits for a lock that its own client holds. This is reported once for each call.
    /// Between two tasks this is ordinary contention. But a task that waits for itself waits for
    /// ever. Examples are a second acquire of a mutex, a write lock while the task reads, and a
    /// second read lock while a writer waits. Such a task needs
    /// [`Guard::reenter`](crate::Guard::reenter).
    #[non_exhaustive]
    OwnLease {
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The token of the lease that is in the way.
        token: FencingToken,
    },
    /// A store that could not be reached, or did not answer in time, answers again. If the store is
    /// made of several servers, this is about one of them.
    #[non_exhaustive]
    Reconnected {
        /// The time since the first request that failed.
        away: Duration,
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
    /// A lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The rest of the validity of the lease.
        validity: Duration,
    },
    /// A request to the store was answered, or failed. A request whose caller no longer waits is
    /// not reported.
    #[non_exhaustive]
    RoundTrip {
        /// The request: `acquire`, `poll`, `release`, `renew` and so on, as
        /// [`Operation::as_str`](crate::store::protocol::Operation::as_str).
        operation: &'static str,
        /// The name of the lock, if the request was about one.
        name: Option<&'a LockName>,
        /// The time from the request to its end.
        took: Duration,
        /// The error, if the request failed.
        error: Option<&'a StoreError>,
    },
    /// The keeper was woken late: the machine was paused, suspended or overloaded. Reported for a
    /// delay of 250 ms or more.
    #[non_exhaustive]
    Stalled {
        /// The time by which the keeper was late.
        late: Duration,
    },
    /// A call ended because its limit was reached.
    #[non_exhaustive]
    TimedOut {
        /// The number of the call, which is unique in this process.
        call: u64,
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The time since the call began.
        waited: Duration,
    },
    /// A grant that reached no caller was given back, or ended: its waiter had given up at the same
    /// moment, was not polled in time, or did not get all the names it asked for.
    #[non_exhaustive]
    Undelivered {
        /// The lease.
        lease: LeaseFacts<'a>,
        /// The time from the grant to its end, during which the name was taken without use.
        held: Duration,
    },
    /// An acquire joined the queue or, where there is no queue, waits to ask again. This is also
    /// reported when an acquire waits again after it was [delayed](Event::Delayed).
    /// [`Admin::inspect`](crate::admin::Admin::inspect) says who holds the lock.
    #[non_exhaustive]
    Waiting {
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The largest number of waiters that can be ahead of this call, in the store's queue or in
        /// the line of the same client; `None` where there is no queue.
        ahead: Option<u32>,
    },
    /// An acquire waits although there may be room: the semaphore is in use with another capacity.
    #[non_exhaustive]
    WaitingForCapacity {
        /// The facts of the call.
        request: RequestFacts<'a>,
        /// The capacity in force.
        capacity: u32,
        /// A text that says why the call waits and until when, with the remedy.
        text: &'a str,
    },
    /// Something weakens a promise. The text says what, with the remedy.
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
        let observers: Self = Self(observers.into_iter().map(Shielded::new).collect());
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
    fn new(observer: Box<dyn Observer>) -> Self {
        Self { observer, has_panicked: AtomicBool::new(false) }
    }

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

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
