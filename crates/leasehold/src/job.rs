//! Jobs that every machine starts and one runs.

use std::time::Duration;

use leasehold_core::{Error, LeaseOptions, Result};

use crate::guard::Guard;
use crate::lock::Lock;

/// A job that is to run once although every machine starts it.
/// [`Client::job`](crate::Client::job) tells what it is for.
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until `run` or `try_start`"]
pub struct Job {
    lock: Lock,
}

impl Job {
    pub(crate) fn new(lock: Lock) -> Self {
        Self { lock }
    }

    /// The name stays taken for at least this long from the start, even if the job ends at once or
    /// fails: as long as the clocks of the machines may differ, so that one whose clock is behind
    /// does not run the job again. Nobody waits for it. Nothing by default, at most 24 h.
    ///
    /// A machine that dies does not keep the name taken: its lease ends after the ttl.
    pub fn min_hold(self, least: Duration) -> Self {
        Self { lock: self.lock.min_hold(least) }
    }

    /// The job is over after this long, even if it hangs: [`run`](Job::run) drops it and gives
    /// [`Error::Lost`], and the next machine may start. For ever by default.
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit) }
    }

    /// As [`Lock::remember`]: how long it can be seen when the job ran last.
    pub fn remember(self, span: Duration) -> Self {
        Self { lock: self.lock.remember(span) }
    }

    /// As [`Lock::ttl`]: how long the name stays taken when the machine that runs the job dies.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { lock: self.lock.ttl(ttl) }
    }

    /// As [`Lock::options`].
    pub fn options(self, options: LeaseOptions) -> Self {
        Self { lock: self.lock.options(options) }
    }

    /// Runs `job`, or gives `None` at once if another machine is at it, or was until too short a
    /// time ago.
    ///
    /// # Errors
    ///
    /// What the job returns; [`Error::Lost`] if it was still running at the end of
    /// [`max_hold`](Job::max_hold) or when its lease was lost; what [`Lock::try_acquire`] returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the job where it is; the name stays taken as after its end.
    pub async fn run<T, E: From<Error>>(
        &self,
        job: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        match self.try_start().await? {
            Some(guard) => guard.run(job).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same in two steps, for a job that is no future: whoever gets the guard runs the job,
    /// and releases it at the end.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::try_acquire`].
    pub async fn try_start(&self) -> Result<Option<Guard>> {
        self.lock.try_acquire().await
    }
}
