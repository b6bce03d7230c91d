//! Stores of locks: the trait [`Store`], the stores that come with leasehold, and their URLs, which
//! [`MANUAL`] describes.
//!
//! # Writing a store
//!
//! A store applies [`step`](protocol::step) to the record of a name: atomically, by the clock of
//! the store, and durably if its capabilities say so. Then it answers. After that it delivers the
//! messages of that step to their inboxes. A store never retries a request that may have been
//! executed. Its error says so, and the caller sends the request again with the same attempt.
//!
//! All types that a store needs are in this module, in [`protocol`] and in [`crate::time`]. The
//! crate `leasehold-conformance` tests whether a store behaves as every store must, and the example
//! `own_store` in the repository is such a store.

pub(crate) mod clocked;
#[cfg(feature = "file")]
mod file;
mod finding;
#[cfg(all(fuzzing, feature = "file", feature = "redis"))]
#[doc(hidden)]
pub mod fuzzing;
mod memory;
#[cfg(any(feature = "file", feature = "postgres"))]
mod message;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod options;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod pace;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
pub mod protocol;
mod quorum;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod renewals;
mod router;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod secret;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod socket;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod tls;
mod traits;
#[cfg(any(feature = "file", feature = "postgres"))]
mod unreadable;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod url;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod warnings;

#[cfg(feature = "file")]
pub use self::file::{File, FileTransaction};
pub use self::finding::{Finding, Level, Topic};
pub use self::memory::Memory;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use self::options::Quarantine;
#[cfg(feature = "postgres")]
pub use self::options::Server as PostgresServer;
#[cfg(feature = "postgres")]
pub use self::postgres::{Postgres, PostgresOptions, PostgresRoles, SslMode};
pub use self::quorum::Quorum;
#[cfg(feature = "redis")]
pub use self::redis::{LayoutName, Redis, RedisItem, RedisOptions, RedisScript, Replicas};
pub(crate) use self::router::is_memory;
#[cfg(feature = "redis")]
pub use self::router::open;
pub use self::router::{check_url, connect, connect_with, examine, shown_url};
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use self::secret::{Login, Password, Secret};
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use self::tls::TlsConfig;
pub(crate) use self::traits::Subscribed;
pub use self::traits::{Capabilities, Inbox, Store, Subscription};
#[doc(hidden)]
pub use self::{place::Place, router::place};

#[cfg(feature = "redis")]
#[doc(hidden)]
pub use self::redis::wire as redis_wire;

/// The TLS library: the options of stores on servers take its configuration.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use tokio_rustls::rustls;

#[doc = include_str!("../../docs/store-urls.md")]
pub const MANUAL: &str = include_str!("../../docs/store-urls.md");
