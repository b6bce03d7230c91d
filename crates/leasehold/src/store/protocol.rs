//! What a [`Store`](super::Store) is asked and what it says, for stores of your own.
//!
//! [`step`] is the meaning of every [`Action`]: a store that keeps a [`Record`] for each name and
//! applies it atomically is right. What a record consists of is the model's own and may change with
//! any release; [`Record::to_bytes`] makes bytes of it to keep.

pub use leasehold_core::model::{
    DEFAULT_RETENTION, NOT_AFTER, Outcome, Record, Rules, UnreadableRecord, step,
};
pub use leasehold_core::{
    Acquire, Action, Addressed, Adopt, Answer, BoxFuture, Cancelled, ClientId, Grant, HolderId,
    LOCK_CAPACITY, Message, Mode, Now, Operation, Page, Place, Reclaim, Refusal, RenewLease, Reply,
};
