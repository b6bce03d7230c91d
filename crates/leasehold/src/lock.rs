//! A request for one lease: what to take and how.

use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::{Error, Invalid, LeaseOptions, LockName, Mode, Renewal, Result};

use crate::engine::Handle;
use crate::guard::Guard;
use crate::wait::{self, Asked, Limit};

/// A request for one lease: what to take and how. No I/O until a verb is called.
///
/// A mutex, a reader, a writer and a permit differ in what is asked, not in how it is asked: the
/// verbs are the same, and so is the guard. A wrong name or option is reported by the verb.
///
/// # Fairness
///
/// Waiters are served in the order in which the store saw them: a release hands over to the first
/// in the queue, and a newcomer takes a free lock only when nobody waits.
///
/// # Outages
///
/// The first contact with the store fails after 5 s, or the wait budget if that is less. From then
/// on a waiter rides out outages: `acquire` for ever, `acquire_within` to its limit.
#[derive(Clone, Debug)]
#[must_use = "a `Lock` does nothing until `acquire`, `acquire_within`, `try_acquire` or `run`"]
pub struct Lock {
    engine: Handle,
    name: Result<LockName, Invalid>,
    mode: Mode,
    options: LeaseOptions,
}

impl Lock {
    pub(crate) fn new(engine: Handle, name: Result<LockName, Invalid>, mode: Mode) -> Self {
        let options = engine.defaults.clone();
        Self { engine, name, mode, options }
    }

    /// The same request for another mode.
    pub(crate) fn with_mode(&self, mode: Mode) -> Self {
        Self { mode, ..self.clone() }
    }

    /// How long the store is asked to keep the lease, 100 ms to 24 h: after a crash of its holder,
    /// others wait for the rest of this.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Who keeps the lease alive.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.options.renewal = renewal;
        self
    }

    /// A grant that leaves its holder less than this is given back.
    pub fn min_validity(mut self, least: Duration) -> Self {
        self.options.min_validity = Some(least);
        self
    }

    /// The lease is lost after this long, however healthy its holder.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.options.max_hold = Some(limit);
        self
    }

    /// The name stays taken for at least this long from the grant, even if it is released before.
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.options.min_hold = Some(least);
        self
    }

    /// What the holder says of itself to an operator who looks.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// All options at once.
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    /// Waits for the lease, for ever if need be.
    ///
    /// Cost: one round trip when it is free; when not, one more per second of waiting for all
    /// waiters of this client on the name together. The first call of a client opens its inbox.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Closed`], [`Error::Store`]; never for contention.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point leaves nothing behind: the keeper cancels the attempt, or
    /// releases what it was granted meanwhile. The place in the queue is lost.
    pub async fn acquire(&self) -> Result<Guard> {
        self.wait(Limit::Forever).await
    }

    /// Waits for the lease, but not longer than `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] says who held it at the end. Otherwise as [`acquire`](Lock::acquire), and
    /// [`Error::Indeterminate`] if the last requests were not answered.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Lock::acquire).
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        self.wait(Limit::Within(limit)).await
    }

    /// Takes the lease if nobody has it or waits for it, and gives `None` otherwise: busy is not an
    /// error.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Lock::acquire); [`Error::Indeterminate`] if no answer came within 2 s.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Lock::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let asked = self.asked()?;
        Ok(wait::acquire(&self.engine, &asked, Limit::Try).await?.map(Guard::new))
    }

    /// Acquires, runs `work` and releases. Work that still runs when the lease is lost is dropped.
    ///
    /// Work that ended within the validity returns its own value even if the release fails; the
    /// keeper finishes that. A finished charge must not be done twice.
    ///
    /// # Errors
    ///
    /// What `work` returns; [`Error::Lost`] if the lease was lost before it ended; what
    /// [`acquire`](Lock::acquire) returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it is, and releases.
    pub async fn run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.acquire().await?;
        let done = {
            let work = std::pin::pin!(work(&guard));
            match select(guard.lost(), work).await {
                Either::Left(_) => None,
                Either::Right((done, _)) => Some(done),
            }
        };
        guard.ensure_held()?;
        // Held, so the work has ended and `done` is there.
        let Some(done) = done else { return Err(Error::Closed.into()) };
        // The value counts, whatever becomes of the release.
        drop(guard.release().await);
        done
    }

    async fn wait(&self, limit: Limit) -> Result<Guard> {
        let asked = self.asked()?;
        match wait::acquire(&self.engine, &asked, limit).await? {
            Some(held) => Ok(Guard::new(held)),
            None => Err(Error::Closed), // unreachable: only a try is told that it is busy
        }
    }

    fn asked(&self) -> Result<Asked> {
        let name = self.name.clone()?;
        self.mode.check()?;
        self.options.check()?;
        Ok(Asked { name, mode: self.mode, options: self.options.clone() })
    }
}
