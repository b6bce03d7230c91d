//! Set capacity: an operator changes how many permits of a semaphore there are while they are held.
//!
//! More are granted in the same step. Fewer end no hold: nothing is granted until what is held
//! fits. [`super::acquire`] says what requests get meanwhile, and until when the capacity counts.

use super::step::Step;
use crate::holder::LOCK_CAPACITY;
use crate::request::{Refusal, Reply};

impl Step<'_> {
    pub(super) fn set_capacity(&mut self, capacity: u32) -> Reply {
        if capacity == 0 || capacity >= LOCK_CAPACITY {
            return Reply::Refused(Refusal::Weight);
        }
        self.sweep();
        // Holders and waiters whose time is over are gone before this step looks.
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
