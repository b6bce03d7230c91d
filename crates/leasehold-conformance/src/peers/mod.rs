//! What the test suites of other lock libraries expect of them, told as cases of ours: Redisson,
//! DistributedLock (.NET), redis-py, rueidislock, bsm/redislock, redsync, the locks of tokio, etcd,
//! Consul and the leader election of Kubernetes. The comment of a case names theirs. Other modules
//! of this suite have most of these cases; this one has those that no other has.

pub mod alone;
pub mod elections;
pub mod permits;
pub mod readers;
pub mod several;

use std::time::Duration;

use leasehold::Lock;
use leasehold::lease::Renewal;

/// How long a lease lives that nothing renews: short, and long enough where half a second of it is
/// not relied on.
const BRIEF: Duration = Duration::from_secs(1);

/// How long is waited for what must happen: generous, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);

/// The same lock without renewal: nothing more is heard of its holder after the grant.
fn unrenewed(lock: Lock) -> Lock {
    lock.ttl(BRIEF).renewal(Renewal::Off).min_validity(Duration::ZERO)
}
