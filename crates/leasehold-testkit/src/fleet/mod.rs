//! A fleet of clients on a simulated cluster: the library's own clients and keepers, the model's
//! own step at each server, and a network and queues between them that a seed decides.
//!
//! All of it runs on one clock that moves on when no task has anything left to do. So minutes of a
//! fleet take only as long as the machine computes. There is no server in it: the costs of commands
//! come from the benchmarks.

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
