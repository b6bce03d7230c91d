//! When a call was polled last. A future may be alive but not polled: another branch of a `select!`
//! is at work, or its thread is blocked. Leases that such a call has gathered are not renewed:
//! otherwise a whole fleet would wait for a process that looks healthy.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Clock, Instant};

use crate::lost::nanos;
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

    /// Runs a call, and records again and again that it is polled.
    pub(crate) async fn of<T>(&self, clock: &dyn Clock, call: impl Future<Output = T>) -> T {
        let records = async {
            loop {
                let now = clock.now();
                self.at.store(nanos(now), Ordering::Release);
                clock.sleep_until(now + self.patience / 4).await;
            }
        };
        tokio::select! {
            biased;
            never = records => never,
            output = call => output,
        }
    }
}
