//! The requests that a quorum cannot serve, and why.

use leasehold_core::{LockName, StoreError, StoreErrorKind};

pub(super) fn beyond_a_node(name: &LockName) -> StoreError {
    let why = format!(
        "{name}: a node of this quorum gives a lock to one holder, with no readers and no permits: \
         see `layout` in its store URL"
    );
    StoreError::new(StoreErrorKind::Unsupported, why)
}

pub(super) fn without_permits(name: &LockName) -> StoreError {
    let why = format!(
        "{name}: a quorum cannot give permits of several: three users would each see a majority \
         for two permits on three nodes; use one primary, or a mutex for each permit"
    );
    StoreError::new(StoreErrorKind::Unsupported, why)
}

pub(super) fn nested(name: &LockName) -> StoreError {
    let why = format!("{name}: a quorum is no node of another quorum");
    StoreError::new(StoreErrorKind::Unsupported, why)
}
