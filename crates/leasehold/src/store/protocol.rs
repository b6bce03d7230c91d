//! The requests to a [`Store`](super::Store) and its replies, for stores of your own.
//!
//! [`step`] defines every [`Action`]: a store that keeps a [`Record`] for each name and applies
//! `step` atomically is correct. The fields of a record belong to the model and may change with any
//! release. [`Record::to_text`] turns a record into text to keep.

pub use leasehold_core::model::{Outcome, Record, Rules, Times, UnreadableRecord, step};
pub use leasehold_core::{
    Action, Addressed, Answer, BoxFuture, ClientId, Description, End, Grant, HolderId, Keep,
    LOCK_CAPACITY, Message, Mode, Now, Operation, Page, Place, Refusal, Reply, Request, Take,
};
