//! The held lease without async.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Error, FencingToken, HolderId, Lease, LockName, LossReason, Mode, Result};

use super::Driver;
use super::forward::forward;
use crate::fence::Fence;
use crate::keeper::Keeper;

/// A held lease, like [`crate::Guard`]. Dropping it releases the lease before the drop returns, if
/// the store answers within 1 s, and otherwise in the background.
#[derive(Debug)]
#[must_use = "if unused the lease is released at once"]
pub struct Guard {
    inner: crate::Guard,
    /// This field is dropped after the lease.
    _end: End,
    driver: Driver,
}

/// The end of a lease. Its drop waits for a moment until the store has received the release.
#[derive(Debug)]
pub(super) struct End(Arc<Keeper>);

impl End {
    pub(super) fn of(guard: &crate::Guard) -> Self {
        Self(Arc::clone(guard.keeper()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.0.forget_parents() {
            self.0.settle();
        }
    }
}

impl From<&Guard> for Fence {
    fn from(guard: &Guard) -> Self {
        Self::from(&guard.inner)
    }
}

impl Guard {
    pub(super) fn new(inner: crate::Guard, driver: &Driver) -> Self {
        Self { _end: End::of(&inner), inner, driver: driver.not_cancelled() }
    }

    forward!("crate::Guard" {
        get name() -> &LockName;
        get token() -> FencingToken;
        get tokens() -> impl ExactSizeIterator<Item = (&LockName, FencingToken)>;
        get holder() -> HolderId;
        get mode() -> Mode;
        get validity() -> Duration;
        get is_held() -> bool;
        get loss() -> Option<LossReason>;
        get release_at_commit() -> &'static str;
        get on_lost(call: impl FnOnce(LossReason) + Send + 'static);
        check ensure_held() -> Result<()>;
        check set_min_hold(least: Duration) -> Result<()>;
        wait renew() -> Result<Duration>;
        wait renew_for(ttl: Duration) -> Result<Duration>;
        wait set_label(label: impl Into<String>) -> Result<()>;
        wait_mut upgrade() -> Result<()>;
        wait_mut upgrade_within(limit: Duration) -> Result<()>;
        wait_mut try_upgrade() -> Result<bool>;
        wait_mut downgrade() -> Result<()>;
    });

    /// Like [`crate::Guard::reenter`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Guard::reenter`].
    pub fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.inner.reenter()?, &self.driver))
    }

    /// Like [`crate::Guard::release`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Guard::release`].
    pub fn release(self) -> Result<()> {
        self.driver.wait(self.inner.release())
    }

    /// Runs `work` and releases, for the methods that do both.
    pub(super) fn run<T, E: From<Error>>(
        self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = work(&self);
        self.ensure_held()?;
        // The value of the work counts, even if the release fails.
        drop(self.release());
        done
    }

    /// Like [`crate::Guard::into_lease`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Guard::into_lease`].
    pub fn into_lease(self) -> Result<Lease> {
        self.inner.into_lease()
    }
}
