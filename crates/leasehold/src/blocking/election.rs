//! Leader election without async.

use leasehold_core::{FencingToken, LeaseOptions, LossReason, Result};

use super::forward::forward;
use super::guard::End;
use super::{Cancel, Driver};
use crate::election::{Leader, Observed};
use crate::lease_setters::lease_setters;

/// One leader among many candidates, like [`crate::election::Election`].
#[derive(Clone, Debug)]
pub struct Election {
    inner: crate::election::Election,
    driver: Driver,
}

impl Election {
    pub(super) fn new(inner: crate::election::Election, driver: &Driver) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// The calls of this election, and its [observations](Election::observe), end with
    /// [`Error::Cancelled`](crate::Error::Cancelled) once `cancel` is called. A leader stays the
    /// leader.
    pub fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { driver: self.driver.cancelled_by(cancel), ..self }
    }

    fn with(self, change: impl FnOnce(&mut LeaseOptions)) -> Self {
        Self { inner: self.inner.with(change), ..self }
    }

    lease_setters!();

    forward!("crate::election::Election" {
        hold campaign(value: impl Into<String>) -> Leadership;
        hold observe() -> Observation;
        wait leader() -> Result<Option<Leader>>;
    });
}

/// A leadership, like [`crate::election::Leadership`]. Dropping it resigns, in the same way as
/// dropping a [`Guard`](super::Guard) releases. It has no method `guard`: a leader that needs the
/// validity of its lease, or another ttl, uses the async type.
#[derive(Debug)]
#[must_use = "if unused the leadership ends at once"]
pub struct Leadership {
    inner: crate::election::Leadership,
    /// This field is dropped after the lease.
    _end: End,
    driver: Driver,
}

impl Leadership {
    fn new(inner: crate::election::Leadership, driver: &Driver) -> Self {
        Self { _end: End::of(inner.guard()), inner, driver: driver.not_cancelled() }
    }

    forward!("crate::election::Leadership" {
        get token() -> FencingToken;
        get loss() -> Option<LossReason>;
        get on_lost(call: impl FnOnce(LossReason) + Send + 'static);
        check ensure_held() -> Result<()>;
        wait proclaim(value: impl Into<String>) -> Result<()>;
    });

    /// Like [`crate::election::Leadership::resign`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::election::Leadership::resign`].
    pub fn resign(self) -> Result<()> {
        self.driver.wait(self.inner.resign())
    }
}

/// The changes of an election, like [`crate::election::Observation`].
#[derive(Debug)]
pub struct Observation {
    inner: crate::election::Observation,
    driver: Driver,
}

impl Observation {
    fn new(inner: crate::election::Observation, driver: &Driver) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// Like [`crate::election::Observation::next`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::election::Observation::next`].
    #[expect(clippy::should_implement_trait, reason = "the name of the async form; it never ends")]
    pub fn next(&mut self) -> Result<Observed> {
        self.driver.wait(self.inner.next())
    }
}
