//! The clock of leasehold and its guardian, and how often and how long they look for processes.

use std::time::Duration;

use leasehold::time::{Clock as _, Instant, SystemClock};

/// The clock of deadlines, for leasehold and guardian: it counts suspended time.
pub(crate) const CLOCK: SystemClock = SystemClock::new();

/// Waits until this instant, or for ever.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => CLOCK.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How often the guardian looks for remaining processes once the command has ended or was killed:
/// 50 ms. A signal reports the end of the last process, but not that a process makes a new session.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The same interval after the report of a process that does not end: 1 s, because that process may
/// take hours.
pub(super) const RARE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the guardian waits for killed processes before it reports one that remains: 2 s.
pub(super) const AFTER_KILL: Duration = Duration::from_secs(2);

/// How long before the end of the lease all processes must have been killed: an eighth of the time
/// between TERM and KILL, 250 ms at most. Finding the processes takes some milliseconds, on a busy
/// machine more.
pub(super) fn head_start(kill_after: Duration) -> Duration {
    (kill_after / 8).min(Duration::from_millis(250))
}
