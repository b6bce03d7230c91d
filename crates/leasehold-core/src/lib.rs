//! The core of leasehold, without I/O and without a runtime: values, the [`model`] of a lock's
//! record, the state machine of [`renewal`], and the counts of a [`quorum`].
//!
//! Users need the crate `leasehold`, which re-exports the items that they need. Authors of stores
//! find their vocabulary in [`request`] and its meaning in [`model::step`].
#![forbid(unsafe_code)]

pub mod backoff;
#[doc(hidden)]
pub mod bugs;
pub mod error;
pub mod fence;
pub mod holder;
pub mod lease;
pub mod model;
pub mod name;
pub mod options;
mod page;
pub mod quorum;
pub mod renewal;
pub mod request;
mod setters;
pub mod text;
pub mod time;
pub mod token;

pub use self::error::{Error, Result, StoreError, StoreErrorKind};
pub use self::fence::{Fence, Fences};
pub use self::holder::{
    ClientId, ForeignHolder, HoldState, Holder, HolderId, HolderInfo, LOCK_CAPACITY, LastHolder,
    MAX_INFO_BYTES, Mode, PassedOn, Status, Waiter,
};
pub use self::lease::{Bounds, Lease, LossReason, Sample};
pub use self::name::{InvalidInput, LockName};
pub use self::options::{LeaseOptions, Renewal};
pub use self::page::Page;
pub use self::request::{
    Action, Addressed, Answer, Description, End, Grant, Keep, Message, Operation, Place, Refusal,
    Reply, Request, Take,
};
pub use self::text::{parse_duration, show_duration};
pub use self::time::{BoxFuture, Clock, FakeClock, Instant, Now};
pub use self::token::FencingToken;
