//! What the tests of leasehold are made of: servers to start and hurt, and certificates for them.
#![forbid(unsafe_code)]

mod certificates;
mod child;
pub mod proxy;
pub mod server;

pub use self::certificates::Certificates;
pub use self::proxy::Proxy;
pub use self::server::{Data, RedisOptions, RedisServer};
