#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admin;
mod adopt;
mod background;
pub mod blocking;
mod client;
mod clock;
mod election;
mod engine;
mod event;
mod failures;
pub mod fence;
mod guard;
mod job;
mod keeper;
mod lock;
mod lost;
mod multi;
mod mutex;
mod poll_queue;
mod refusal;
mod rwlock;
mod semaphore;
pub mod store;
mod wait;
mod wait_free;

pub use self::admin::Admin;
pub use self::client::{Client, ClientBuilder};
pub use self::clock::SystemClock;
pub use self::election::{Election, Leader, Leadership, Observation};
#[cfg(feature = "tracing")]
pub use self::event::TracingObserver;
pub use self::event::{Event, Observer};
pub use self::guard::Guard;
pub use self::job::Job;
pub use self::lock::Lock;
pub use self::lost::Lost;
pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;
pub use leasehold_core::{
    ClientId, Clock, Error, FakeClock, FencingToken, ForeignHolder, HoldState, Holder, HolderId,
    HolderInfo, Instant, InvalidInput, Lease, LeaseOptions, LockName, LossReason, Mode, Renewal,
    Result, Status, StoreError, StoreErrorKind, Waiter, parse_duration, show_duration,
};

/// The recipes of the documentation, executed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes {}
