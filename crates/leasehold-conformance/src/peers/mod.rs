//! Cases taken from the test suites of other lock libraries: Redisson, DistributedLock (.NET),
//! redis-py, rueidislock, bsm/redislock, redsync, the locks of tokio, etcd, Consul and the leader
//! election of Kubernetes. The comment of a case names the original tests. Most of their cases are
//! in other modules of this suite; this module has the rest.

pub mod alone;
pub mod elections;
pub mod permits;
pub mod readers;
