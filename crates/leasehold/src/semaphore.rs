//! A semaphore: a number of permits under one name.

use leasehold_core::{InvalidInput, LockName, Mode};

use crate::keeper::Handle;
use crate::lock::Lock;

/// At most `capacity` permits at a time, on one name.
///
/// `permit` and `permits` return a request ([`Lock`]) with the methods and options of every lock.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// let gpus = client.semaphore("gpu", 4);
/// let one = gpus.permit().acquire().await?;
/// let three = gpus.permits(3).label("training run 7").acquire().await?;
/// assert!(gpus.permit().try_acquire().await?.is_none(), "all are taken");
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

    /// One permit.
    pub fn permit(&self) -> Lock {
        self.permits(1)
    }

    /// Several permits together: all or none.
    pub fn permits(&self, count: u32) -> Lock {
        self.all.with_mode(Mode::Permits { count, capacity: self.capacity })
    }
}
