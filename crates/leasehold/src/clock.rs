//! The system's clock.

use std::time::{Duration, SystemTime};

use futures_util::future::{Either, select};
#[cfg(unix)]
use leasehold_core::bugs::{self, Bug};
use leasehold_core::time::micros;
use leasehold_core::{BoxFuture, Clock, Instant};
#[cfg(unix)]
use rustix::time::{ClockId, clock_gettime};

/// The system's clock. It counts the time for which the machine was suspended (`CLOCK_BOOTTIME` on
/// Linux, the performance counter of Windows). On other systems it is `CLOCK_MONOTONIC`, and a
/// lease must not be relied on across a suspend.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The output of `part`; `None` if `deadline` comes first.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    deadline: impl Into<Option<Instant>>,
    part: impl Future<Output = T> + Unpin,
) -> Option<T> {
    let Some(deadline) = deadline.into() else { return Some(part.await) };
    match select(part, clock.sleep_until(deadline)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// The longest single timer: 2 s. The runtime's timers stand still while the machine is suspended.
/// So a long timer is split into parts, and the clock is checked after each part. After a suspend,
/// a timer is up to 2 s late. A guard's `is_held`, `validity` and `ensure_held` are not late: they
/// read the clock. Shorter parts would wake an idle waiter more often.
const LONGEST_TIMER: Duration = Duration::from_secs(2);

/// The longest sleep that cannot be cancelled: 100 ms. A runtime that shuts down may wait for it.
const LONGEST_REAL_SLEEP: Duration = Duration::from_millis(100);

impl SystemClock {
    /// The system's clock.
    pub const fn new() -> Self {
        Self
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::from_origin(since_origin())
    }

    fn wall_us(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_1970.map_or(0, micros)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = at.saturating_since(clock.now());
                if left.is_zero() {
                    return;
                }
                let (before, part) = (clock.now(), left.min(LONGEST_TIMER));
                tokio::time::sleep(part).await;
                if clock.now().saturating_since(before) < part / 2 {
                    sleep_really(part).await;
                }
            }
        })
    }
}

#[cfg(unix)]
fn since_origin() -> Duration {
    let clock = if bugs::is_on(Bug::ClockStopsAsleep) { ClockId::Monotonic } else { CLOCK };
    let time = clock_gettime(clock);
    // The kernel's clocks since boot are never negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
fn since_origin() -> Duration {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    ORIGIN.elapsed()
}

/// Sleeps on a thread, for a runtime whose clock a test has paused and whose timers therefore fire
/// too early. Setting those timers over and over until the system's clock catches up would keep a
/// core busy.
async fn sleep_really(span: Duration) {
    let sleep = move || std::thread::sleep(span.min(LONGEST_REAL_SLEEP));
    // The sleep ends early only if the runtime ends.
    drop(tokio::task::spawn_blocking(sleep).await);
}

/// The time of a tokio runtime whose clock a test has paused: leases and timers of a store in
/// memory then go by the time of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PausedTime {
    began: tokio::time::Instant,
    began_wall_us: u64,
}

impl PausedTime {
    /// The time of the caller's runtime, if that is paused. It counts as paused if it stands still
    /// while real time passes.
    pub(crate) fn of_this_runtime() -> Option<Self> {
        tokio::runtime::Handle::try_current().ok()?;
        let (began, real) = (tokio::time::Instant::now(), std::time::Instant::now());
        while real.elapsed().is_zero() {
            std::hint::spin_loop();
        }
        let is_paused = tokio::time::Instant::now() == began;
        is_paused.then(|| Self { began, began_wall_us: SystemClock.wall_us() })
    }
}

impl Clock for PausedTime {
    fn now(&self) -> Instant {
        Instant::from_origin(self.began.elapsed())
    }

    fn wall_us(&self) -> u64 {
        self.began_wall_us.saturating_add(micros(self.began.elapsed()))
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.began + at.since_origin()))
    }

    fn is_driven_by_caller(&self) -> bool {
        true
    }
}
