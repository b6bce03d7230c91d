//! The trait of stores for the data parts.

use std::fmt;

use leasehold_core::data::{self, Request};
use leasehold_core::{BoxFuture, StoreError};

/// One place where the data parts live: stock, order numbers, queues and cells.
///
/// A store applies the step of the part ([`leasehold_core::data`]) to the record of a name,
/// atomically, with its own wall clock.
pub trait DataStore: Send + Sync + fmt::Debug + 'static {
    /// Does one step.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] tells whether it is certain that nothing was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the step is done.
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<data::Answer, StoreError>>;
}

impl<S: DataStore + ?Sized> DataStore for Box<S> {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<data::Answer, StoreError>> {
        (**self).apply(request)
    }
}
