//! Jobs that every machine starts and one runs, without async.

use std::time::Duration;

use leasehold_core::{Error, LeaseOptions, Result};

use super::{Driver, Guard};

/// A job that is to run once although every machine starts it, as [`crate::job::Job`].
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until `run` or `try_start`"]
pub struct Job {
    inner: crate::job::Job,
    driver: Driver,
}

impl Job {
    pub(super) fn new(inner: crate::job::Job, driver: Driver) -> Self {
        Self { inner, driver }
    }

    fn map(self, change: impl FnOnce(crate::job::Job) -> crate::job::Job) -> Self {
        Self { inner: change(self.inner), driver: self.driver }
    }

    /// As [`crate::job::Job::min_hold`].
    pub fn min_hold(self, least: Duration) -> Self {
        self.map(|job| job.min_hold(least))
    }

    /// As [`crate::job::Job::max_hold`], except that a thread cannot be stopped from outside: a job
    /// that may take long looks at [`Guard::ensure_held`] or registers [`Guard::on_lost`].
    pub fn max_hold(self, limit: Duration) -> Self {
        self.map(|job| job.max_hold(limit))
    }

    /// As [`crate::job::Job::remember`].
    pub fn remember(self, span: Duration) -> Self {
        self.map(|job| job.remember(span))
    }

    /// As [`crate::job::Job::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|job| job.ttl(ttl))
    }

    /// As [`crate::job::Job::options`].
    pub fn options(self, options: LeaseOptions) -> Self {
        self.map(|job| job.options(options))
    }

    /// As [`crate::job::Job::run`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn run<T, E: From<Error>>(
        &self,
        job: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        match self.try_start()? {
            Some(guard) => guard.run(job).map(Some),
            None => Ok(None),
        }
    }

    /// As [`crate::job::Job::try_start`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_start(&self) -> Result<Option<Guard>> {
        let guard = self.driver.wait(self.inner.try_start())?;
        Ok(guard.map(|guard| Guard::new(guard, self.driver.clone())))
    }
}
