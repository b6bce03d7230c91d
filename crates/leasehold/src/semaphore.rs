//! A semaphore: a number of permits under one name.

use std::time::Duration;

use leasehold_core::{Error, InvalidInput, LockName, Mode, Result};

use crate::guard::Guard;
use crate::keeper::Handle;
use crate::lock::Lock;

/// At most `capacity` permits at a time, on one name.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// let gpus = client.semaphore("gpu", 4);
/// let one = gpus.acquire().await?;
/// let three = gpus.permits(3).label("training run 7").acquire().await?;
/// assert!(gpus.try_acquire().await?.is_none(), "all are taken");
/// one.release().await?;
/// three.release().await
/// # }
/// ```
///
/// # Capacity
///
/// Each request names a capacity, but only one capacity is in force at a time. If nobody holds or
/// waits, the next request sets the capacity. A request for another capacity waits in line, and
/// [`Waiting`](crate::event::Event::Waiting) says why. That request is
/// granted once it is first and nobody holds a permit; from then on, its capacity is in force. A
/// try with another capacity is refused with [`Mismatch`](crate::error::StoreErrorKind::Mismatch).
/// So callers do not fail while a program with another number is rolled out, and there are never
/// more holders than the lower number allows. But if callers with both numbers wait, each waits
/// until all earlier callers with the other number have finished.
///
/// [`Admin::set_capacity`](crate::admin::Admin::set_capacity) changes the capacity immediately, for
/// requests with the old number and with the new one.
///
/// # Fairness
///
/// The first waiter in the queue is served first. Free permits are kept for that waiter until there
/// are enough, so a request for many is not starved by requests for few.
#[derive(Clone, Debug)]
pub struct Semaphore {
    all: Lock,
    capacity: u32,
}

impl Semaphore {
    pub(crate) fn new(keeper: Handle, name: Result<LockName, InvalidInput>, capacity: u32) -> Self {
        let all = Lock::new(keeper, name, Mode::Permits { count: capacity, capacity });
        Self { all, capacity }
    }

    /// One permit, with options: `semaphore.permit().label("training").acquire()`.
    pub fn permit(&self) -> Lock {
        self.permits(1)
    }

    /// Waits for one permit, like [`Lock::acquire`].
    ///
    /// # Errors
    ///
    /// The same as [`Lock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// The same as [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Guard> {
        self.permit().acquire().await
    }

    /// Waits for one permit, but not longer than `limit`, like [`Lock::acquire_within`].
    ///
    /// # Errors
    ///
    /// The same as [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    ///
    /// The same as [`Lock::acquire_within`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        self.permit().acquire_within(limit).await
    }

    /// Takes one permit if there is one, like [`Lock::try_acquire`].
    ///
    /// # Errors
    ///
    /// The same as [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// The same as [`Lock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.permit().try_acquire().await
    }

    /// Acquires one permit, runs `work` and releases, like [`Lock::run`].
    ///
    /// # Errors
    ///
    /// The same as [`Lock::run`].
    ///
    /// # Cancel safety
    ///
    /// The same as [`Lock::run`].
    pub async fn run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.permit().run(work).await
    }

    /// Several permits together: all or none.
    pub fn permits(&self, count: u32) -> Lock {
        self.all.with_mode(Mode::Permits { count, capacity: self.capacity })
    }
}
