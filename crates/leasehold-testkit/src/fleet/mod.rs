//! A fleet of clients on a simulated cluster: the library's own clients and keepers, the model's
//! own step at each server, and a network and queues between them that a seed decides.
//!
//! All of it runs on one clock that moves on when nobody has anything left to do, so what a fleet
//! does in minutes is played as fast as the machine can compute it. Nothing of it is a server:
//! what a command costs one is taken from the benchmarks.

mod counts;
mod names;
mod network;
mod node;
mod process;
mod report;
mod store;
mod time;
mod work;

pub use self::counts::{Counts, SLOT, Timeline};
pub use self::network::{Network, Weather};
pub use self::node::{BUS_MESSAGE, CONNECT, RENEWED_LEASE, SCRIPT};
pub use self::report::{Failover, Report};
pub use self::store::FleetStore;
pub use self::time::run;
pub use self::work::{Plan, play};
