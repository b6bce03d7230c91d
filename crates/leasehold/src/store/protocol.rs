//! The requests to a [`Store`](super::Store) and its replies, for stores of your own.
//!
//! [`step`] defines every [`Action`]: a store that keeps a [`Record`] for each name and applies
//! `step` atomically is correct. The fields of a record belong to the model and may change with any
//! release. [`Record::to_bytes`] turns a record into bytes to keep.

pub use leasehold_core::model::{
    NOT_AFTER, Outcome, RETENTION, Record, Rules, UnreadableRecord, step,
};
pub use leasehold_core::{
    Acquire, Action, Addressed, Adopt, Answer, BoxFuture, Cancelled, ClientId, Grant, HolderId,
    LOCK_CAPACITY, Message, Mode, Now, Operation, Page, Place, Reclaim, Refusal, RenewLease, Reply,
};
