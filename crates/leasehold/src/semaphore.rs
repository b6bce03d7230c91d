//! A number of permits.

use leasehold_core::{Invalid, LockName, Mode};

use crate::engine::Handle;
use crate::lock::Lock;

/// At most `capacity` permits at a time, on one name.
///
/// The capacity is part of the request: while the name is held or awaited, asking with another one
/// is an error.
///
/// # Fairness
///
/// The first in the queue is served first. Permits that are left over wait with it until there are
/// enough, so a request for many is not starved by requests for few.
#[derive(Clone, Debug)]
pub struct Semaphore {
    all: Lock,
    capacity: u32,
}

impl Semaphore {
    pub(crate) fn new(engine: Handle, name: Result<LockName, Invalid>, capacity: u32) -> Self {
        let all = Lock::new(engine, name, Mode::Permits { count: capacity, capacity });
        Self { all, capacity }
    }

    /// One permit.
    pub fn permit(&self) -> Lock {
        self.permits(1)
    }

    /// Several permits at once, all or none.
    pub fn permits(&self, count: u32) -> Lock {
        self.all.with_mode(Mode::Permits { count, capacity: self.capacity })
    }
}
