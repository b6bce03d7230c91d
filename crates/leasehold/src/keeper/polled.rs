//! When a call was polled last. A future may be alive but not polled: another branch of a `select!`
//! is at work, or its thread is blocked. Leases that such a call has gathered are not renewed:
//! otherwise a whole fleet would wait for a process that looks healthy.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{Clock, Instant};

use crate::sync::AtomicU64;

/// The last poll of a call that gathers several names.
#[derive(Debug)]
pub(crate) struct Polled {
    /// In nanoseconds since the clock's origin.
    at: AtomicU64,
    /// The call is polled more often than this.
    patience: Duration,
}

impl Polled {
    /// A call that asks for leases of this ttl.
    pub(crate) fn new(ttl: Duration) -> Arc<Self> {
        Arc::new(Self { at: AtomicU64::new(0), patience: ttl / 3 })
    }

    /// Whether the call is polled.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        let at = Instant::from_origin(Duration::from_nanos(self.at.load(Ordering::Acquire)));
        now.saturating_since(at) <= self.patience
    }

    /// Runs a call, records when it is polled, and makes sure that it is polled often enough.
    pub(crate) async fn of<T>(&self, clock: &dyn Clock, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        let mut timer = clock.sleep_until(clock.now());
        std::future::poll_fn(move |context| {
            let nanos = u64::try_from(clock.now().since_origin().as_nanos()).unwrap_or(u64::MAX);
            self.at.store(nanos, Ordering::Release);
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
