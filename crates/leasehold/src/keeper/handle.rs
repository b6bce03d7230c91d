//! The handles of a client, through which callers ask for leases; and the same client in a forked
//! child.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{Error, Result};

use super::state::Keeper;

/// A handle on a keeper, for a client or a lock that may ask for leases. While there is a handle or
/// a lease, the keeper keeps its connection.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Keeper>);

impl Handle {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Self {
        keeper.add_handle();
        Self(keeper)
    }

    /// The keeper of this process. A forked child makes a new one.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] if a child cannot make one; otherwise the reason why it could not open the
    /// store.
    pub(crate) async fn here(&self) -> Result<&Arc<Keeper>> {
        match self.0.is_of_parent() {
            false => Ok(&self.0),
            // Boxed, so that the future of a call stays small.
            true => Ok(Box::pin(self.0.successor()).await?),
        }
    }

    /// Like [`here`](Self::here), but returns a handle, for a value that keeps using the keeper.
    ///
    /// # Errors
    ///
    /// The same as [`here`](Self::here).
    pub(crate) async fn handle_here(&self) -> Result<Self> {
        Ok(Self::new(Arc::clone(self.here().await?)))
    }

    /// The keeper of this process, or `None` in a forked child that has not made one yet.
    pub(crate) fn known(&self) -> Option<&Arc<Keeper>> {
        match self.0.is_of_parent() {
            false => Some(&self.0),
            true => self.0.successors.this().ok()?.get(),
        }
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
        let was_last = self.0.drop_handle();
        self.0.forget_parents();
        if was_last
            && let Some(keeper) = self.known()
            && (Arc::ptr_eq(keeper, &self.0) || keeper.drop_handle())
        {
            keeper.wake.notify_one();
            keeper.settle();
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

    /// The keeper of the same client in this forked process, with a new identity and a new
    /// connection. The first call makes it.
    async fn successor(&self) -> Result<&Arc<Self>> {
        let make = || async {
            let made = self.remake.as_ref().ok_or(Error::Forked)?().await?;
            // The new keeper has a handle until the last handle of this one is dropped.
            made.add_handle();
            Ok::<_, Error>(made)
        };
        self.successors.this()?.get_or_try_init(make).await
    }

    fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::AcqRel);
    }

    /// Drops a handle, and returns whether it was the last.
    fn drop_handle(&self) -> bool {
        self.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }
}
