//! Leader election without async.

use std::time::Duration;

use leasehold_core::{FencingToken, LeaseOptions, LossReason, Result};

use super::guard::End;
use super::{Cancel, Driver};
use crate::election::{Leader, Observed};

/// One leader among many candidates, as [`crate::election::Election`].
#[derive(Clone, Debug)]
pub struct Election {
    inner: crate::election::Election,
    driver: Driver,
    cancel: Option<Cancel>,
}

impl Election {
    pub(super) fn new(inner: crate::election::Election, driver: Driver) -> Self {
        Self { inner, driver, cancel: None }
    }

    /// Campaigns, and what [observes](Election::observe), end with
    /// [`Error::Cancelled`](crate::Error::Cancelled) once `cancel` is called. A leader goes on.
    pub fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// As [`crate::election::Election::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { inner: self.inner.ttl(ttl), ..self }
    }

    /// As [`crate::election::Election::options`].
    pub fn options(self, options: LeaseOptions) -> Self {
        Self { inner: self.inner.options(options), ..self }
    }

    /// As [`crate::election::Election::campaign`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn campaign(&self, value: impl Into<String>) -> Result<Leadership> {
        let campaign = self.inner.campaign(value);
        let inner = self.driver.wait_unless(self.cancel.as_ref(), campaign)?;
        Ok(Leadership { _end: End::of(inner.guard()), inner, driver: self.driver.clone() })
    }

    /// As [`crate::election::Election::leader`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn leader(&self) -> Result<Option<Leader>> {
        self.driver.wait(self.inner.leader())
    }

    /// As [`crate::election::Election::observe`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn observe(&self) -> Result<Observation> {
        let inner = self.driver.wait_unless(self.cancel.as_ref(), self.inner.observe())?;
        Ok(Observation { inner, driver: self.driver.clone(), cancel: self.cancel.clone() })
    }
}

/// A leadership, as [`crate::election::Leadership`]. Dropping it resigns as dropping a
/// [`Guard`](super::Guard) lets go.
#[derive(Debug)]
#[must_use = "if unused the leadership ends at once"]
pub struct Leadership {
    inner: crate::election::Leadership,
    /// Dropped after the lease.
    _end: End,
    driver: Driver,
}

impl Leadership {
    /// As [`crate::election::Leadership::token`].
    pub fn token(&self) -> FencingToken {
        self.inner.token()
    }

    /// Why the leadership has ended, or `None` while it may be relied on. No I/O.
    pub fn loss(&self) -> Option<LossReason> {
        self.inner.loss()
    }

    /// As [`Guard::on_lost`](super::Guard::on_lost).
    pub fn on_lost(&self, call: impl FnOnce(LossReason) + Send + 'static) {
        self.inner.on_lost(call);
    }

    /// As [`crate::Guard::ensure_held`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn ensure_held(&self) -> Result<()> {
        self.inner.ensure_held()
    }

    /// As [`crate::election::Leadership::proclaim`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn proclaim(&self, value: impl Into<String>) -> Result<()> {
        self.driver.wait(self.inner.proclaim(value))
    }

    /// As [`crate::election::Leadership::resign`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn resign(self) -> Result<()> {
        self.driver.wait(self.inner.resign())
    }
}

/// Changes of an election, as [`crate::election::Observation`].
#[derive(Debug)]
pub struct Observation {
    inner: crate::election::Observation,
    driver: Driver,
    cancel: Option<Cancel>,
}

impl Observation {
    /// As [`crate::election::Observation::next`].
    ///
    /// # Errors
    ///
    /// As there.
    #[expect(clippy::should_implement_trait, reason = "the name of the async form; it never ends")]
    pub fn next(&mut self) -> Result<Observed> {
        self.driver.wait_unless(self.cancel.as_ref(), self.inner.next())
    }
}
