//! The keeper's requests that have been answered.

use std::sync::Arc;

use leasehold_core::{HolderId, LockName, LossReason, StoreError};

use super::lease::LeaseState;
use crate::store::Inbox;
use crate::store::clocked::TimedAnswer;

/// A finished request.
pub(super) enum Done {
    Cleaned(Result<(), StoreError>),
    Opened(Result<Box<dyn Inbox>, StoreError>),
    Polled {
        name: LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    },
    Reclaimed {
        state: Arc<LeaseState>,
        reason: LossReason,
        result: Result<TimedAnswer, StoreError>,
    },
    Told {
        state: Arc<LeaseState>,
        result: Result<TimedAnswer, StoreError>,
    },
    Renewed {
        states: Vec<Arc<LeaseState>>,
        result: Result<TimedAnswer, StoreError>,
    },
}
