//! A request for one lease without async.

use std::time::Duration;

use leasehold_core::{Error, LeaseOptions, Result, Status};

use super::forward::forward;
use super::{Cancel, Driver, Guard};
use crate::lease_setters::lease_setters;

/// A request for one lease, like [`crate::Lock`]. It does no I/O until one of its methods is
/// called.
#[derive(Clone, Debug)]
#[must_use = "a `Lock` does nothing until `acquire`, `acquire_within`, `try_acquire` or `run`"]
pub struct Lock {
    inner: crate::Lock,
    driver: Driver,
}

impl Lock {
    pub(super) fn new(inner: crate::Lock, driver: &Driver) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// The calls of this lock end with [`Error::Cancelled`] once `cancel` is called. A lease that
    /// was granted before remains held.
    pub fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { driver: self.driver.cancelled_by(cancel), ..self }
    }

    fn with(self, change: impl FnOnce(&mut LeaseOptions)) -> Self {
        Self { inner: self.inner.with(change), ..self }
    }

    lease_setters!();

    forward!("crate::Lock" {
        set label(label: impl Into<String>);
        set release_while_waiting();
        hold acquire() -> Guard;
        hold acquire_within(limit: Duration) -> Guard;
        wait status() -> Result<Status>;
    });

    /// Like [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Lock::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        let guard = self.driver.wait(self.inner.try_acquire())?;
        Ok(guard.map(|guard| Guard::new(guard, &self.driver)))
    }

    /// Acquires, runs `work` and releases. A thread cannot be stopped from outside, so `work` that
    /// may take long must check [`Guard::ensure_held`] or register a callback with
    /// [`Guard::on_lost`].
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`acquire`](Lock::acquire); [`Error::Lost`] if the lease was
    /// lost before the work ended.
    pub fn run<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.acquire()?.run(work)
    }

    /// Like [`run`](Lock::run) if the lease is free; otherwise it returns `None`. See
    /// [`crate::Lock::try_run`].
    ///
    /// # Errors
    ///
    /// The same as [`run`](Lock::run).
    pub fn try_run<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.try_acquire()?.map(|guard| guard.run(work)).transpose()
    }
}

/// Many readers or one writer, like [`crate::RwLock`].
#[derive(Clone, Debug)]
pub struct RwLock {
    inner: crate::RwLock,
    driver: Driver,
}

impl RwLock {
    pub(super) fn new(inner: crate::RwLock, driver: &Driver) -> Self {
        Self { inner, driver: driver.clone() }
    }

    forward!("crate::RwLock" {
        make read() -> Lock;
        make upgradable_read() -> Lock;
        make write() -> Lock;
    });
}

/// A number of permits, like [`crate::Semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: crate::Semaphore,
    driver: Driver,
}

impl Semaphore {
    pub(super) fn new(inner: crate::Semaphore, driver: &Driver) -> Self {
        Self { inner, driver: driver.clone() }
    }

    forward!("crate::Semaphore" {
        make permit() -> Lock;
        make permits(count: u32) -> Lock;
        hold acquire() -> Guard;
        hold acquire_within(limit: Duration) -> Guard;
    });

    /// Like [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.permit().try_acquire()
    }

    /// Like [`Lock::run`], with one permit.
    ///
    /// # Errors
    ///
    /// The same as [`Lock::run`].
    pub fn run<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.permit().run(work)
    }
}
