#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(all(feature = "file", not(unix)))]
compile_error!("the file store is for Unix: turn the feature `file` off");

/// Implements `Debug` by a closure of the value and the formatter.
macro_rules! debug_as {
    ($kind:ty => $show:expr) => {
        impl std::fmt::Debug for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let show: fn(&Self, &mut std::fmt::Formatter<'_>) -> std::fmt::Result = $show;
                show(self, f)
            }
        }
    };
}

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
mod lock;
mod lost;
mod mutex;
#[doc(hidden)]
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

/// The result of a call that can fail.
///
/// In an async block, this type fixes the type of the error:
///
/// ```
/// let task = async { leasehold::Result::Ok(42) };
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// The errors other than [`Error`] itself: for invalid input, and from a store.
pub mod error {
    pub use leasehold_core::{InvalidInput, StoreError, StoreErrorKind};
}

/// The mode of a lease, the choice of who renews it, and a lease on its way to another process.
pub mod lease {
    pub use leasehold_core::{Lease, Mode, Renewal};
}

/// Clocks, also for tests, and durations as text.
pub mod time {
    pub use crate::clock::SystemClock;
    pub use leasehold_core::{Clock, FakeClock, Instant, parse_duration, show_duration};
}

/// The examples of the page on locks, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/locks.md")]
mod locks {}

/// The examples of the page of recipes, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes {}

/// The examples of the page on observers, run as tests.
#[cfg(all(doctest, feature = "metrics", feature = "tracing"))]
#[doc = include_str!("../../../docs/observing.md")]
mod observing {}

/// The examples of the page on testing, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-your-code.md")]
mod testing_your_code {}
