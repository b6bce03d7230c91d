//! The time that a reader is promised, and the largest hash that can be a lock.

use std::time::Duration;

/// The default `lockWatchdogTimeout` of a JVM: 30 s. Its watchdog sets the end of a read lock to
/// this time from now, even if another reader has more time left.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A hash with more fields than this is not read: it is other data, and no lock.
pub(crate) const PEEK_LIMIT: u32 = 4096;
