//! What the tests of leasehold are made of: what every store must do, servers to start and hurt,
//! and certificates for them.
#![forbid(unsafe_code)]

mod aof;
mod certificates;
mod child;
mod clock;
pub mod cluster;
pub mod conformance;
mod contenders;
mod faulty;
pub mod history;
pub mod outage;
mod program;
pub mod proxy;
mod replicas;
mod resp;
mod sentinels;
pub mod server;
mod subject;
pub mod worker;

pub use self::aof::Tail;
pub use self::certificates::Certificates;
pub use self::cluster::Cluster;
pub use self::contenders::Contenders;
pub use self::faulty::{Faults, Faulty};
pub use self::program::SERVER_PROGRAM;
pub use self::proxy::{Fault, Proxy};
pub use self::replicas::Replicated;
pub use self::sentinels::SentinelFleet;
pub use self::server::{Data, RedisOptions, RedisServer};
pub use self::subject::{SharedStore, Subject, fresh_number, must};
pub use self::worker::Worker;
