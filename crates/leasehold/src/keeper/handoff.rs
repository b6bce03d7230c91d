//! The hand-off of a grant to the caller that asked for it.
//!
//! A future may be alive but not polled: another branch of a `select!` is at work, or its thread is
//! blocked. A lease that is granted to it meanwhile would be renewed for ever, and a whole fleet
//! would wait for a process that looks healthy. So a grant that nobody fetches in time is given
//! back. The table decides under its lock whether a grant was fetched or is given back: a call that
//! is polled too late finds no grant.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{Clock, Instant};

use crate::sync::AtomicU64;

/// The state of a grant on its way to a guard.
#[derive(Debug)]
pub(crate) enum Handoff {
    /// The caller has the grant.
    Done,
    /// A call that is not over has the grant: it gathers several names, or has more to do. The
    /// lease is renewed while that call is polled.
    Gathered(Arc<Pulse>),
    /// The grant waits until this time to be fetched. Its lease is not renewed.
    Waiting { until: Instant },
}

impl Handoff {
    /// A grant with this validity, on its way to a waiting future. A future that fetches the grant
    /// at the last moment has a quarter of the validity left to renew it.
    pub(super) fn waiting(now: Instant, validity: Duration) -> Self {
        Self::Waiting { until: now + patience(validity) }
    }

    /// The time at which the grant is given back, unless its state changes.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Done => None,
            Self::Gathered(pulse) => Some(pulse.until()),
            Self::Waiting { until } => Some(*until),
        }
    }
}

/// The time within which a grant must be fetched: as long as a store waits for a claim, or a part
/// of the validity if that is less.
fn patience(validity: Duration) -> Duration {
    CLAIM_WINDOW.min(validity / 4 * 3)
}

/// The last poll of a call on which other calls depend: it keeps some names while it asks for
/// others or does more, or it has the seat of callers that poll.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// The time of the last poll, in nanoseconds since the clock's origin.
    polled_at: AtomicU64,
    patience: Duration,
}

impl Pulse {
    /// The pulse of a call that asks for leases of this ttl.
    pub(crate) fn new(ttl: Duration) -> Arc<Self> {
        Arc::new(Self { polled_at: AtomicU64::new(0), patience: patience(ttl) })
    }

    /// The pulse of a seat, from `now` on.
    pub(super) fn of_seat(now: Instant) -> Arc<Self> {
        let pulse = Self { polled_at: AtomicU64::new(0), patience: CLAIM_WINDOW };
        pulse.beat(now);
        Arc::new(pulse)
    }

    pub(super) fn beat(&self, now: Instant) {
        let nanos = u64::try_from(now.since_origin().as_nanos()).unwrap_or(u64::MAX);
        self.polled_at.store(nanos, Ordering::Release);
    }

    pub(super) fn until(&self) -> Instant {
        let polled_at = Duration::from_nanos(self.polled_at.load(Ordering::Acquire));
        Instant::from_origin(polled_at) + self.patience
    }

    /// Runs a call, records when it is polled, and makes sure that it is polled often enough.
    pub(crate) async fn of<T>(&self, clock: &dyn Clock, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        let mut timer = clock.sleep_until(clock.now());
        std::future::poll_fn(move |context| {
            self.beat(clock.now());
            if let Poll::Ready(output) = call.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            while timer.as_mut().poll(context).is_ready() {
                timer = clock.sleep_until(clock.now() + self.patience / 4);
            }
            Poll::Pending
        })
        .await
    }
}
