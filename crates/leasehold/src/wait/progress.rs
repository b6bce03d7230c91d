//! What the attempts of one call share.

use leasehold_core::StoreError;

use super::retry::Retry;
use crate::failures::{FailureStreak, is_no_answer};
use crate::poll_queue::Poller;

/// How far a call has come, over all its attempts.
pub(super) struct Progress {
    pub(super) reported: Reported,
    pub(super) retry: Retry,
    /// Its place among those who poll, where the store has no queue.
    pub(super) poller: Option<Poller>,
}

/// What the observer knows of a call, over all its attempts.
#[derive(Debug, Default)]
pub(super) struct Reported {
    pub(super) failures: FailureStreak,
    pub(super) is_waiting: bool,
    pub(super) own_lease: bool,
}

impl Reported {
    /// Why a call ends with this error: a request that was cut off at the limit says less than the
    /// one before it.
    pub(super) fn cause_of(&self, error: StoreError) -> StoreError {
        match self.failures.cause() {
            Some(before) if is_no_answer(&error) => before.clone(),
            Some(_) | None => error,
        }
    }
}
