//! The held lease without async.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Error, FencingToken, HolderId, Lease, LockName, LossReason, Mode, Result};

use super::Driver;
use crate::fence::Fence;
use crate::keeper::Keeper;

/// A held lease, as [`crate::Guard`]. Dropping it lets go before it returns, if the store answers
/// within 1 s, else in the background.
#[derive(Debug)]
#[must_use = "if unused the lease is released at once"]
pub struct Guard {
    inner: crate::Guard,
    /// Dropped after the lease.
    _end: End,
    driver: Driver,
}

/// The end of a lease: waits for a moment until the store knows of it.
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
    pub(super) fn new(inner: crate::Guard, driver: Driver) -> Self {
        Self { _end: End::of(&inner), inner, driver }
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// As [`crate::Guard::token`].
    pub fn token(&self) -> FencingToken {
        self.inner.token()
    }

    /// As [`crate::Guard::tokens`].
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = (&LockName, FencingToken)> {
        self.inner.tokens()
    }

    /// As [`crate::Guard::holder`].
    pub fn holder(&self) -> HolderId {
        self.inner.holder()
    }

    /// As [`crate::Guard::mode`].
    pub fn mode(&self) -> Mode {
        self.inner.mode()
    }

    /// As [`crate::Guard::validity`].
    pub fn validity(&self) -> Duration {
        self.inner.validity()
    }

    /// As [`crate::Guard::is_held`].
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// As [`crate::Guard::ensure_held`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn ensure_held(&self) -> Result<()> {
        self.inner.ensure_held()
    }

    /// As [`crate::Guard::loss`].
    pub fn loss(&self) -> Option<LossReason> {
        self.inner.loss()
    }

    /// As [`crate::Guard::on_lost`].
    pub fn on_lost(&self, call: impl FnOnce(LossReason) + Send + 'static) {
        self.inner.on_lost(call);
    }

    /// As [`crate::Guard::renew`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn renew(&self) -> Result<Duration> {
        self.driver.wait(self.inner.renew())
    }

    /// As [`crate::Guard::renew_for`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn renew_for(&self, ttl: Duration) -> Result<Duration> {
        self.driver.wait(self.inner.renew_for(ttl))
    }

    /// As [`crate::Guard::set_label`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::set_label`].
    pub fn set_label(&self, label: impl Into<String>) -> Result<()> {
        self.driver.wait(self.inner.set_label(label))
    }

    /// As [`crate::Guard::set_min_hold`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_min_hold(&self, least: Duration) -> Result<()> {
        self.inner.set_min_hold(least)
    }

    /// As [`crate::Guard::reenter`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.inner.reenter()?, self.driver.clone()))
    }

    /// As [`crate::Guard::upgrade`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn upgrade(&mut self) -> Result<()> {
        self.driver.wait(self.inner.upgrade())
    }

    /// As [`crate::Guard::upgrade_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn upgrade_within(&mut self, limit: Duration) -> Result<()> {
        self.driver.wait(self.inner.upgrade_within(limit))
    }

    /// As [`crate::Guard::try_upgrade`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_upgrade(&mut self) -> Result<bool> {
        self.driver.wait(self.inner.try_upgrade())
    }

    /// As [`crate::Guard::downgrade`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn downgrade(&mut self) -> Result<()> {
        self.driver.wait(self.inner.downgrade())
    }

    /// As [`crate::Guard::release`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn release(self) -> Result<()> {
        self.driver.wait(self.inner.release())
    }

    /// Runs `work` and releases, for the verbs that do both.
    pub(super) fn run<T, E: From<Error>>(
        self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = work(&self);
        self.ensure_held()?;
        // The value counts, whatever becomes of the release.
        drop(self.release());
        done
    }

    /// As [`crate::Guard::into_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn into_lease(self) -> Result<Lease> {
        self.inner.into_lease()
    }
}
