//! Cases taken from the test suites of other lock libraries: Redisson, DistributedLock (.NET),
//! redis-py, rueidislock, bsm/redislock, redsync, the locks of tokio, etcd, Consul and the leader
//! election of Kubernetes. The comment of a case names the original tests. Most of their cases are
//! in other modules of this suite; this module has the rest.

pub mod alone;
pub mod elections;
pub mod permits;
pub mod readers;

use std::time::Duration;

use leasehold::Lock;
use leasehold::lease::Renewal;

/// The ttl of a lease that nothing renews. It is short, but long enough for a store whose leases
/// lose half a second of validity: a grant must leave half of the ttl.
const BRIEF: Duration = Duration::from_secs(3);

/// How long a test waits for an expected event: generous, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);

/// The same lock without renewal: its holder sends nothing after the grant.
fn unrenewed(lock: Lock) -> Lock {
    lock.ttl(BRIEF).renewal(Renewal::Off)
}
