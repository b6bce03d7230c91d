//! The trait of stores for data.

use std::fmt;

use futures_util::future::BoxFuture;
use leasehold::error::StoreError;

use crate::model::{Answer, Request};

/// A store for the data parts: stock and order numbers.
///
/// A store applies the step of a part ([`model`](crate::model)) to the record of a name,
/// atomically. The time of the step is the store's wall clock.
pub trait DataStore: Send + Sync + fmt::Debug + 'static {
    /// Does one step.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] says whether the step may have been done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the step is done.
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>>;
}
