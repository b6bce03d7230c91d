//! A request for one lease without async.

use std::time::Duration;

use leasehold_core::{Error, LeaseOptions, Renewal, Result, Status};

use super::{Cancel, Driver, Guard};

/// A request for one lease, as [`crate::Lock`]. No I/O until a verb is called.
#[derive(Clone, Debug)]
#[must_use = "a `Lock` does nothing until `acquire`, `acquire_within`, `try_acquire` or `run`"]
pub struct Lock {
    inner: crate::Lock,
    driver: Driver,
    cancel: Option<Cancel>,
}

impl Lock {
    pub(super) fn new(inner: crate::Lock, driver: Driver) -> Self {
        Self { inner, driver, cancel: None }
    }

    fn map(self, change: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        Self { inner: change(self.inner), ..self }
    }

    /// The verbs of this lock end with [`Error::Cancelled`] once `cancel` is called.
    pub fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// As [`crate::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|lock| lock.ttl(ttl))
    }

    /// As [`crate::Lock::renewal`].
    pub fn renewal(self, renewal: Renewal) -> Self {
        self.map(|lock| lock.renewal(renewal))
    }

    /// As [`crate::Lock::min_validity`].
    pub fn min_validity(self, least: Duration) -> Self {
        self.map(|lock| lock.min_validity(least))
    }

    /// As [`crate::Lock::max_hold`].
    pub fn max_hold(self, limit: Duration) -> Self {
        self.map(|lock| lock.max_hold(limit))
    }

    /// As [`crate::Lock::min_hold`].
    pub fn min_hold(self, least: Duration) -> Self {
        self.map(|lock| lock.min_hold(least))
    }

    /// As [`crate::Lock::remember`].
    pub fn remember(self, span: Duration) -> Self {
        self.map(|lock| lock.remember(span))
    }

    /// As [`crate::Lock::label`].
    pub fn label(self, label: impl Into<String>) -> Self {
        self.map(|lock| lock.label(label))
    }

    /// As [`crate::Lock::release_while_waiting`].
    pub fn release_while_waiting(self) -> Self {
        self.map(crate::Lock::release_while_waiting)
    }

    /// As [`crate::Lock::options`].
    pub fn options(self, options: LeaseOptions) -> Self {
        self.map(|lock| lock.options(options))
    }

    /// As [`crate::Lock::acquire`].
    ///
    /// # Errors
    ///
    /// As there; [`Error::Cancelled`] after [`cancelled_by`](Lock::cancelled_by).
    pub fn acquire(&self) -> Result<Guard> {
        Ok(self.held(self.wait(self.inner.acquire())?))
    }

    /// As [`crate::Lock::acquire_within`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Lock::acquire), and as there.
    pub fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        Ok(self.held(self.wait(self.inner.acquire_within(limit))?))
    }

    /// As [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Lock::acquire), and as there.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.wait(self.inner.try_acquire())?.map(|guard| self.held(guard)))
    }

    /// As [`crate::Lock::wait_free`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait_free(&self) -> Result<()> {
        self.driver.wait(self.inner.wait_free())
    }

    /// As [`crate::Lock::wait_free_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait_free_within(&self, limit: Duration) -> Result<()> {
        self.driver.wait(self.inner.wait_free_within(limit))
    }

    /// As [`crate::Lock::status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn status(&self) -> Result<Status> {
        self.driver.wait(self.inner.status())
    }

    /// Acquires, runs `work` and releases. A thread cannot be stopped from outside: `work` that may
    /// take long looks at [`Guard::ensure_held`] or registers [`Guard::on_lost`].
    ///
    /// # Errors
    ///
    /// What `work` returns; [`Error::Lost`] if the lease was lost before it ended; what
    /// [`acquire`](Lock::acquire) returns.
    pub fn run<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.acquire()?.run(work)
    }

    fn wait<T>(&self, verb: impl Future<Output = Result<T>>) -> Result<T> {
        self.driver.wait_unless(self.cancel.as_ref(), verb)
    }

    fn held(&self, guard: crate::Guard) -> Guard {
        Guard::new(guard, self.driver.clone())
    }
}

/// Many readers or one writer, as [`crate::RwLock`].
#[derive(Clone, Debug)]
pub struct RwLock {
    inner: crate::RwLock,
    driver: Driver,
}

impl RwLock {
    pub(super) fn new(inner: crate::RwLock, driver: Driver) -> Self {
        Self { inner, driver }
    }

    /// A lease shared with other readers.
    pub fn read(&self) -> Lock {
        Lock::new(self.inner.read(), self.driver.clone())
    }

    /// As [`crate::RwLock::upgradable_read`].
    pub fn upgradable_read(&self) -> Lock {
        Lock::new(self.inner.upgradable_read(), self.driver.clone())
    }

    /// A lease alone.
    pub fn write(&self) -> Lock {
        Lock::new(self.inner.write(), self.driver.clone())
    }
}

/// A number of permits, as [`crate::Semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: crate::Semaphore,
    driver: Driver,
}

impl Semaphore {
    pub(super) fn new(inner: crate::Semaphore, driver: Driver) -> Self {
        Self { inner, driver }
    }

    /// One permit.
    pub fn permit(&self) -> Lock {
        self.permits(1)
    }

    /// As [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn acquire(&self) -> Result<Guard> {
        self.permit().acquire()
    }

    /// As [`crate::Semaphore::acquire_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        self.permit().acquire_within(limit)
    }

    /// As [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.permit().try_acquire()
    }

    /// Several permits at once, all or none.
    pub fn permits(&self, count: u32) -> Lock {
        Lock::new(self.inner.permits(count), self.driver.clone())
    }
}
