//! What happens to leases, told to whoever wants to log, trace or count it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{FencingToken, LockName, LossReason, StoreError};

/// Something that happened to a lease of this client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call that waits is held up by trouble with the store, which it rides out: the store is
    /// away, in quarantine, without enough replicas or nodes. Told of each request that fails,
    /// about once a second; [`Waiting`](Event::Waiting) follows once the store answers again and
    /// somebody else is in the way.
    #[non_exhaustive]
    Delayed {
        /// The name of the lock.
        name: &'a LockName,
        /// What the store said, or why it said nothing.
        cause: &'a StoreError,
        /// For how long it has been held up by trouble of this kind; zero as that begins.
        lasting: Duration,
    },
    /// A lease was granted and has come into the hands of whoever asked for it.
    #[non_exhaustive]
    Granted {
        /// The name of the lock.
        name: &'a LockName,
        /// The token of the grant.
        token: FencingToken,
        /// From the call of the verb until the caller had it.
        waited: Duration,
    },
    /// A lease ended, and not because its holder let go.
    #[non_exhaustive]
    Lost {
        /// The name of the lock.
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// Why.
        reason: LossReason,
        /// Why it was not renewed, if renewals failed and it [expired](LossReason::Expired).
        cause: Option<&'a StoreError>,
    },
    /// A renewal is late; the lease is still valid, for so long. Told as renewals begin to fail,
    /// and when they come to fail for another kind of reason.
    #[non_exhaustive]
    Overdue {
        /// The name of the lock.
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// What is left of its validity.
        validity: Duration,
        /// Why it was not renewed.
        cause: &'a StoreError,
    },
    /// A call waits for what its own client holds, told once for each call. Between two tasks that
    /// is contention as any other. A task that waits for what it holds itself waits for ever: a
    /// second acquire of a mutex, a writer beside its own reader, a reader that comes again while a
    /// writer waits; [`Guard::reenter`](crate::Guard::reenter) is what it wants.
    #[non_exhaustive]
    OwnLease {
        /// The name of the lock.
        name: &'a LockName,
        /// The token of the lease that is in the way.
        token: FencingToken,
    },
    /// A lease was released by its holder.
    #[non_exhaustive]
    Released {
        /// The name of the lock.
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// From the grant to the release.
        held: Duration,
    },
    /// A lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// The name of the lock.
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// What is left of its validity.
        validity: Duration,
    },
    /// The keeper was woken late: the machine was paused, suspended or overloaded.
    #[non_exhaustive]
    Stalled {
        /// By how much.
        late: Duration,
    },
    /// A grant ended, or was given back, that has reached nobody: whoever waited for it had given
    /// up in the same moment, was not polled in time, or did not get all the names it asked for.
    #[non_exhaustive]
    Undelivered {
        /// The name of the lock.
        name: &'a LockName,
        /// The token of the grant.
        token: FencingToken,
        /// From the grant to its end: for so long the name was taken in vain.
        held: Duration,
    },
    /// An acquire joined the queue, or waits to ask again where there is none; or it goes on doing
    /// so after it was [delayed](Event::Delayed). Who holds the lock says
    /// [`Admin::inspect`](crate::admin::Admin::inspect).
    #[non_exhaustive]
    Waiting {
        /// The name of the lock.
        name: &'a LockName,
        /// At most so many come before; `None` where there is no queue.
        ahead: Option<u32>,
    },
    /// An acquire waits although there may be room: the semaphore is in use with another capacity.
    #[non_exhaustive]
    WaitingForCapacity {
        /// The name of the lock.
        name: &'a LockName,
        /// The capacity in force.
        capacity: u32,
        /// Why it waits and until when, in words, with the remedy.
        text: &'a str,
    },
    /// Something weakens a promise, in words, with the remedy.
    #[non_exhaustive]
    Warning {
        /// The words.
        text: &'a str,
    },
}

/// Is told of every [`Event`]. The one seam for logs, traces and metrics.
///
/// It is called by the keeper and by whoever calls a verb, so it must be quick and must not block:
/// while it runs in the keeper, no lease of the process is renewed. A panic of it ends in the call,
/// costs no lease, and is told of once, as a [`Warning`](Event::Warning).
pub trait Observer: Send + Sync + 'static {
    /// Takes note of an event.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Takes no note of anything: the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silent;

impl Observer for Silent {
    fn observe(&self, _: &Event<'_>) {}
}

/// An observer whose panics end where it is called.
pub(crate) struct Shielded {
    observer: Arc<dyn Observer>,
    has_panicked: AtomicBool,
}

impl Shielded {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, has_panicked: AtomicBool::new(false) }
    }
}

impl Observer for Shielded {
    fn observe(&self, event: &Event<'_>) {
        if panics(|| self.observer.observe(event))
            && !self.has_panicked.swap(true, Ordering::Relaxed)
        {
            let text = "the observer panicked and has missed an event: mend it";
            panics(|| self.observer.observe(&Event::Warning { text }));
        }
    }
}

/// Calls what a user gave us. A panic ends here, after the hook of the process has told of it:
/// what it leaves half done is the user's own.
pub(crate) fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Hands every event to `tracing`: losses and warnings as `WARN`, what is late as `INFO`, the rest
/// as `DEBUG`.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver;

#[cfg(feature = "tracing")]
impl Observer for TracingObserver {
    fn observe(&self, event: &Event<'_>) {
        use tracing::{debug, info, warn};
        match *event {
            Event::Granted { name, token, waited } => debug!(%name, %token, ?waited, "granted"),
            Event::Delayed { name, cause, lasting } if lasting.is_zero() => {
                info!(%name, %cause, "delayed");
            }
            Event::Delayed { name, cause, lasting } => {
                debug!(%name, %cause, ?lasting, "still delayed");
            }
            Event::Lost { name, token, reason, cause: Some(cause) } => {
                warn!(%name, %token, %reason, %cause, "lost");
            }
            Event::Lost { name, token, reason, cause: None } => {
                warn!(%name, %token, %reason, "lost");
            }
            Event::Overdue { name, token, validity, cause } => {
                info!(%name, %token, ?validity, %cause, "renewal overdue");
            }
            Event::OwnLease { name, token } => info!(%name, %token, "waits for its own client"),
            Event::Released { name, token, held } => debug!(%name, %token, ?held, "released"),
            Event::Renewed { name, token, validity } => {
                debug!(%name, %token, ?validity, "renewed");
            }
            Event::Stalled { late } => info!(?late, "the keeper was woken late"),
            Event::Undelivered { name, token, held } => {
                debug!(%name, %token, ?held, "granted in vain");
            }
            Event::Waiting { name, ahead } => debug!(%name, ?ahead, "waiting"),
            Event::WaitingForCapacity { text, .. } | Event::Warning { text } => warn!("{text}"),
        }
    }
}
