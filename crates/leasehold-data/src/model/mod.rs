//! The meaning of the data parts, as `leasehold_core::model` is for locks: stock, order numbers,
//! queues and guarded cells, each a record and a pure `step`.
//!
//! A store keeps one record per part and name and applies its step atomically. Time is the store's
//! wall clock in microseconds since 1970, because what is remembered here outlives a reboot.

pub mod cell;
pub mod due;
pub mod id;
mod limits;
pub mod numbers;
pub mod queue;
mod request;
pub mod stock;

pub use self::due::Due;
pub use self::id::Id;
pub use self::limits::{COLLECT_BOUND, MAX_NUMBER};
pub use self::request::{Action, Answer, Reply, Request};
