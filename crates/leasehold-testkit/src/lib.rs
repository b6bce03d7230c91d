//! The tools of leasehold's tests: servers to start and hurt, certificates for them, and the suite
//! that every store must pass.
#![forbid(unsafe_code)]

mod aof;
mod bus;
mod certificates;
mod child;
pub mod clock;
pub mod cluster;
mod contenders;
mod faulty;
pub mod harness;
pub mod history;
mod installed;
mod least_privilege;
pub mod outage;
mod pgbouncer;
mod postgres;
mod postgres_pair;
mod program;
pub mod proxy;
mod replicas;
mod resp;
mod sentinels;
pub mod server;
mod shared_postgres;
pub mod small_disk;
mod table;
pub mod worker;

pub use self::certificates::Certificates;
pub use self::cluster::Cluster;
pub use self::contenders::{Contenders, Work};
pub use self::faulty::{Faults, Faulty};
pub use self::harness::{must, options_of, quorum_url, three_nodes};
pub use self::installed::{installed, java, redisson_peer};
pub use self::least_privilege::{LeastPrivilege, assert_nothing_denied};
pub use self::pgbouncer::PgBouncer;
pub use self::postgres::Postgres;
pub use self::postgres_pair::PostgresPair;
pub use self::program::SERVER_PROGRAM;
pub use self::proxy::{Fault, Proxy};
pub use self::replicas::Replicated;
pub use self::sentinels::SentinelFleet;
pub use self::server::{Data, RedisOptions, RedisServer};
pub use self::shared_postgres::shared_postgres;
pub use self::table::Table;
pub use self::worker::Worker;
pub use leasehold_conformance::{SharedStore, Subject, conformance, fresh_number, passes_on};
