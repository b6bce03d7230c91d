//! The handles of a client, through which callers ask for leases.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{Error, Result};

use super::Keeper;

/// A handle on a keeper, for a client or a lock that may ask for leases. While there is a handle or
/// a lease, the keeper keeps its connection.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Keeper>);

impl Handle {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Self {
        keeper.handles.fetch_add(1, Ordering::AcqRel);
        Self(keeper)
    }

    /// The keeper, for a call that may ask the store.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] in a child of the process that made the client.
    pub(crate) fn here(&self) -> Result<&Arc<Keeper>> {
        if self.0.is_of_parent() { Err(Error::Forked) } else { Ok(&self.0) }
    }
}

impl std::ops::Deref for Handle {
    type Target = Arc<Keeper>;

    fn deref(&self) -> &Arc<Keeper> {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.forget_parents() && self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // It was the last.
            self.0.wake.notify_one();
            self.0.settle();
        }
    }
}

impl Keeper {
    /// Whether this keeper belongs to a process that this one was forked from. Its handle is then
    /// [forgotten](Self::forget_parents): it is not used, and not dropped.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.made_in.is_another()
    }

    /// Makes sure that a keeper of another process is never dropped. Returns whether this keeper
    /// belongs to another process.
    pub(crate) fn forget_parents(self: &Arc<Self>) -> bool {
        let is_of_parent = self.is_of_parent();
        if is_of_parent {
            std::mem::forget(Arc::clone(self));
        }
        is_of_parent
    }

    pub(crate) fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }
}
