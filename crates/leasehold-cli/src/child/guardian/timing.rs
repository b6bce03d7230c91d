//! Time for leasehold and its guardian: the clock of both, and how often and how long they look.

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

/// How often the remaining processes are looked for once the command has ended or was killed: 50
/// ms. A signal tells of the end of the last one, but nothing tells when one makes a new session.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The same once it was said that a process does not end: 1 s, because it may take hours.
pub(super) const RARE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long killed processes are waited for before one that remains is named: 2 s.
pub(super) const AFTER_KILL: Duration = Duration::from_secs(2);

/// How long before the end of the lease all processes must have been killed: an eighth of
/// the time between TERM and KILL, 250 ms at most. To find them takes some milliseconds, on a busy
/// machine more.
pub(super) fn head_start(kill_after: Duration) -> Duration {
    (kill_after / 8).min(Duration::from_millis(250))
}
