#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(all(feature = "file", not(unix)))]
compile_error!("the file store is for Unix: turn the feature `file` off");

mod acquire;
pub mod admin;
mod background;
pub mod blocking;
mod client;
mod clock;
pub mod election;
pub mod event;
mod failures;
pub mod fence;
mod guard;
mod keeper;
mod lease_setters;
mod lock;
mod lost;
mod mutex;
mod own_process;
pub mod process;
mod replies;
mod rwlock;
#[cfg(test)]
mod schedules;
mod semaphore;
pub mod store;
mod sync;

pub use self::client::{Client, ClientBuilder};
pub use self::guard::Guard;
pub use self::lock::Lock;
pub use self::lost::Lost;
pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;
pub use leasehold_core::{Error, FencingToken, LeaseOptions, LockName, LossReason};

/// The result of a verb.
///
/// In a task it tells what the error is:
///
/// ```
/// let task = async { leasehold::Result::Ok(42) };
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// The errors beside [`Error`] itself: of an input, and of a store.
pub mod error {
    pub use leasehold_core::{InvalidInput, StoreError, StoreErrorKind};
}

/// The mode of a lease, the choice of who renews it, and a lease on its way to another process.
pub mod lease {
    pub use leasehold_core::{Lease, Mode, Renewal};
}

/// Clocks, also for tests, and spans as text.
pub mod time {
    pub use crate::clock::SystemClock;
    pub use leasehold_core::{Clock, FakeClock, Instant, parse_duration, show_duration};
}

/// What the documentation says of locks, executed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/locks.md")]
mod locks {}

/// The recipes of the documentation, executed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes {}

/// What the documentation says of observers, executed.
#[cfg(all(doctest, feature = "metrics", feature = "tracing"))]
#[doc = include_str!("../../../docs/observing.md")]
mod observing {}

/// What the documentation says of testing, executed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-your-code.md")]
mod testing_your_code {}
