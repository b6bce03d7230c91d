//! What must still reach the store although nobody waits for it.

use leasehold_core::{Action, Instant, LockName};

/// Something that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    pub(crate) name: LockName,
    pub(crate) action: Action,
    /// From then on it does not matter any more: time has done it.
    pub(crate) until: Instant,
    /// What is published of the name, once it is done.
    pub(crate) notice: Option<String>,
}
