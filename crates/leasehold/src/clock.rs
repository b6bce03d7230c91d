//! The system's clock.

use std::time::{Duration, SystemTime};

use leasehold_core::{BoxFuture, Clock, Instant};
use rustix::time::{ClockId, clock_gettime};

/// The system's clock: one that counts the time the machine was suspended (`CLOCK_BOOTTIME` on
/// Linux). Elsewhere it is `CLOCK_MONOTONIC`, and a lease must not be relied on across a suspend.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Longest single timer, 2 s: the runtime's timers stand still while the machine is suspended, so
/// a long one is taken in parts, and each part looks at the clock. After a suspend a timer is up to
/// that much late; a question to a guard is not. Shorter parts wake an idle waiter more often.
const LONGEST_TIMER: Duration = Duration::from_secs(2);

impl SystemClock {
    /// The system's clock.
    pub const fn new() -> Self {
        Self
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        let time = clock_gettime(CLOCK);
        // The kernel's clocks since boot are never negative.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Instant::from_origin(Duration::new(seconds, nanos))
    }

    fn wall_us(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_1970.map_or(0, |span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = at.saturating_since(clock.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_TIMER)).await;
            }
        })
    }
}
