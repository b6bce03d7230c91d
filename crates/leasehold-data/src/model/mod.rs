//! The model of the data parts, like `leasehold_core::model` for locks. Stock and order numbers are
//! each a record and a pure `step`.
//!
//! A store keeps one record per part and name and applies its step atomically. Time is the store's
//! wall clock in microseconds since 1970, because the records outlive a reboot.

pub mod due;
pub mod id;
mod limits;
pub mod numbers;
mod request;
pub mod stock;

pub use self::due::Due;
pub use self::id::Id;
pub use self::limits::{COLLECT_BOUND, MAX_NUMBER};
pub use self::request::{Action, Answer, Reply, Request};
