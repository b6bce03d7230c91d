//! The stores of the data parts: the trait [`DataStore`], and the function that opens a store by
//! its URL.
//!
//! On Redis and in a file, the data parts use the connections of a lock store
//! ([`leasehold::store`]). Their data is under separate keys, or in separate tables.

mod data_store;
#[cfg(feature = "file")]
mod file;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod router;

pub use self::data_store::DataStore;
#[cfg(feature = "file")]
pub use self::file::File;
pub use self::memory::Memory;
#[cfg(feature = "redis")]
pub use self::redis::REDIS_RIGHTS;
pub(crate) use self::router::connect;
