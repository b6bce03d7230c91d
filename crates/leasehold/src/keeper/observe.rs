//! The events of leases for the observer: each grant, and its end, once.
//!
//! The caller of a lease reports the grant, while the keeper may find its end at the same moment in
//! another thread. An observer that counts held leases must not see the end first, nor a grant that
//! never ends.

use leasehold_core::Instant;
use leasehold_core::text::show_duration;

use super::Keeper;
use super::lease::{LeaseState, Observed};
use crate::event::Event;
use crate::lost::End;

impl Keeper {
    /// Reports the grant of a delivered lease to the caller that asked at `started`.
    pub(crate) fn report_granted(&self, call: u64, state: &LeaseState, started: Instant) {
        if !self.is_observed() {
            return;
        }
        let waited = state.held_from().saturating_since(started);
        self.observe(&Event::Granted { call, lease: state.facts(), waited });
        let ended = state.changing().observed.granted();
        if let Some(end) = ended {
            self.report_one_end(state, end, self.store.now());
        }
    }

    /// Reports the end, at `now`, of a lease that was in the table.
    pub(super) fn report_end(&self, state: &LeaseState, end: End, now: Instant) {
        if !self.is_observed() {
            return;
        }
        if !state.is_delivered() {
            let held = show_duration(now.saturating_since(state.granted_at));
            let text = format!(
                "{}: was taken for {held} for nobody: its caller gave up at that moment, or \
                 something blocks the thread that polls its future",
                state.name
            );
            self.observe(&Event::Warning { text: &text });
            return;
        }
        let is_new = state.changing().observed.ended(end);
        if is_new {
            self.report_one_end(state, end, now);
        }
    }

    fn report_one_end(&self, state: &LeaseState, end: End, now: Instant) {
        let (lease, held) = (state.facts(), now.saturating_since(state.granted_at));
        match end {
            End::Lost(reason) => {
                let cause = state.cause(reason);
                self.observe(&Event::Lost { lease, held, reason, cause: cause.as_ref() });
            }
            End::Released => self.observe(&Event::Released { lease, held }),
        }
    }
}

impl Observed {
    /// Records that the grant was reported. Returns the end of the lease if it came before the
    /// grant was reported, and has to be reported now.
    fn granted(&mut self) -> Option<End> {
        self.is_granted = true;
        self.end
    }

    /// Records that the lease has ended. Returns whether its end has to be reported now.
    fn ended(&mut self, end: End) -> bool {
        let is_first = self.end.is_none();
        self.end.get_or_insert(end);
        is_first && self.is_granted
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::LossReason;

    use super::*;

    #[test]
    fn an_end_that_is_found_before_the_grant_was_reported_is_reported_after_it_and_once() {
        let mut observed = Observed::default();
        assert!(!observed.ended(End::Lost(LossReason::Revoked)));
        assert_eq!(observed.granted(), Some(End::Lost(LossReason::Revoked)));
        assert!(!observed.ended(End::Released));
    }

    #[test]
    fn a_reported_lease_ends_once() {
        let mut observed = Observed::default();
        assert_eq!(observed.granted(), None);
        assert!(observed.ended(End::Released));
        assert!(!observed.ended(End::Released));
    }
}
