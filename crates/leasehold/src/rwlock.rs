//! Many readers or one writer.

use leasehold_core::{Invalid, LockName, Mode};

use crate::engine::Handle;
use crate::lock::Lock;

/// Many readers or one writer, on one name. A mutex of the same name excludes as a writer does.
///
/// # Fairness
///
/// Readers and writers queue together. A reader that comes after a waiting writer waits behind it,
/// so writers do not starve; readers that wait next to each other are admitted together.
#[derive(Clone, Debug)]
pub struct RwLock {
    write: Lock,
}

impl RwLock {
    pub(crate) fn new(engine: Handle, name: Result<LockName, Invalid>) -> Self {
        Self { write: Lock::new(engine, name, Mode::Exclusive) }
    }

    /// A lease shared with other readers.
    pub fn read(&self) -> Lock {
        self.write.with_mode(Mode::Shared)
    }

    /// A lease alone.
    pub fn write(&self) -> Lock {
        self.write.clone()
    }
}
