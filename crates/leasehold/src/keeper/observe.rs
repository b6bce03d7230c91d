//! The events of leases for the observer: each grant, and its end, once.
//!
//! The caller of a lease reports the grant, while the keeper may find its end at the same moment in
//! another thread. An observer that counts held leases must not see the end first, nor a grant that
//! never ends.

use leasehold_core::Instant;
use leasehold_core::text::show_duration;

use super::Keeper;
use super::lease::LeaseState;
use crate::event::Event;
use crate::lost::End;

impl Keeper {
    /// Reports the grant of a delivered lease to the caller that asked at `started`.
    pub(crate) fn report_granted(&self, call: u64, state: &LeaseState, started: Instant) {
        if !self.is_observed() {
            return;
        }
        let from = state.signal.delivered().unwrap_or(state.granted_at);
        let waited = from.saturating_since(started);
        self.observe(&Event::Granted { call, lease: state.facts(), waited });
        let now = self.store.now();
        let end = state.is_reported_again().then(|| state.signal.check_at(now));
        if let Some(end) = end.flatten() {
            self.report_one_end(state, end, now);
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
        if state.is_reported_again() {
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
