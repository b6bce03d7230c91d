//! Set capacity: an operator changes the number of permits of a semaphore that is in use.
//!
//! With a higher number, permits are granted in the same step. A lower number ends no hold: nothing
//! is granted until the held permits fit. [`super::acquire`] describes the replies to requests
//! meanwhile, and how long the capacity is in force.

use super::step::Step;
use crate::holder::LOCK_CAPACITY;
use crate::request::{Refusal, Reply};

impl Step<'_> {
    pub(super) fn set_capacity(&mut self, capacity: u32) -> Reply {
        if capacity == 0 || capacity >= LOCK_CAPACITY {
            return Reply::Refused(Refusal::Weight);
        }
        self.sweep();
        // Holders and waiters whose time is over are removed before this step checks the record.
        self.promote(None);
        if self.record.is_idle() {
            return Reply::CapacitySet { before: None };
        }
        if self.record.capacity == LOCK_CAPACITY {
            return Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
        }
        let before = std::mem::replace(&mut self.record.capacity, capacity);
        self.keep_until(self.now_us());
        self.promote(None);
        Reply::CapacitySet { before: Some(before) }
    }
}
