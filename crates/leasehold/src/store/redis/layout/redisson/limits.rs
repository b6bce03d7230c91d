//! How long a reader is promised a lock, and how large a hash may be that is one.

use std::time::Duration;

/// `lockWatchdogTimeout` of a JVM that does not say otherwise: 30 s. Its watchdog sets the end of a
/// read lock to so long from now on, also where another reader has more left.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A hash with more fields than this is not looked into: it is data of somebody, and no lock.
pub(crate) const PEEK_LIMIT: u32 = 4096;
