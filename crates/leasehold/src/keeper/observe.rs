//! The events of leases for the observer: each grant, the changes of its mode, and its end, once.
//!
//! The caller of a lease reports the grant, while the keeper may find its end at the same moment in
//! another thread. An observer that counts held leases must not see the end first, nor a grant that
//! never ends.

use leasehold_core::text::show_duration;
use leasehold_core::{Instant, Mode};

use super::lease::{LeaseState, Observed};
use super::state::Keeper;
use crate::event::Event;
use crate::lost::End;

impl Keeper {
    /// Reports the grant of a delivered lease to the caller that asked at `started`.
    pub(crate) fn report_granted(&self, call: u64, state: &LeaseState, started: Instant) {
        if !self.is_observed() {
            return;
        }
        let mode = state.mode();
        let waited = state.held_from().saturating_since(started);
        self.observe(&Event::Granted { call, lease: state.facts(mode), waited });
        let ended = state.observed.lock().granted(mode);
        if let Some(end) = ended {
            self.report_one_end(state, mode, end, self.store.now());
        }
    }

    /// Reports that a lease is held in another mode from now on.
    pub(crate) fn report_mode(&self, state: &LeaseState, mode: Mode) {
        let from = state.observed.lock().changed(mode);
        if let Some(from) = from {
            self.observe(&Event::ModeChanged { lease: state.facts(mode), from });
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
        let mode = state.observed.lock().ended(end);
        if let Some(mode) = mode {
            self.report_one_end(state, mode, end, now);
        }
    }

    fn report_one_end(&self, state: &LeaseState, mode: Mode, end: End, now: Instant) {
        let (lease, held) = (state.facts(mode), now.saturating_since(state.granted_at));
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
    fn granted(&mut self, mode: Mode) -> Option<End> {
        match *self {
            Self::Nothing => *self = Self::Held(mode),
            Self::Ending(end) => {
                *self = Self::Ended;
                return Some(end);
            }
            Self::Held(_) | Self::Ended => {}
        }
        None
    }

    /// Records that the lease is held in another mode. Returns the mode before, if the change has
    /// to be reported.
    fn changed(&mut self, mode: Mode) -> Option<Mode> {
        match self {
            Self::Held(held) if *held != mode => Some(std::mem::replace(held, mode)),
            Self::Nothing | Self::Ending(_) | Self::Held(_) | Self::Ended => None,
        }
    }

    /// Records that the lease has ended. Returns the mode in which it was held, if its end has to
    /// be reported now.
    fn ended(&mut self, end: End) -> Option<Mode> {
        match *self {
            Self::Nothing => *self = Self::Ending(end),
            Self::Held(mode) => {
                *self = Self::Ended;
                return Some(mode);
            }
            Self::Ending(_) | Self::Ended => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::LossReason;

    use super::*;

    #[test]
    fn an_end_that_is_found_before_the_grant_was_reported_is_reported_after_it_and_once() {
        let mut observed = Observed::default();
        assert_eq!(observed.ended(End::Lost(LossReason::Revoked)), None);
        assert_eq!(observed.granted(Mode::Exclusive), Some(End::Lost(LossReason::Revoked)));
        assert_eq!(observed.ended(End::Released), None);
        assert_eq!(observed.changed(Mode::Shared), None);
    }

    #[test]
    fn what_ends_is_what_was_reported_last_and_nothing_changes_after_it() {
        let mut observed = Observed::default();
        assert_eq!(observed.granted(Mode::Shared), None);
        assert_eq!(observed.changed(Mode::Shared), None, "it is that already");
        assert_eq!(observed.changed(Mode::Exclusive), Some(Mode::Shared));
        assert_eq!(observed.ended(End::Released), Some(Mode::Exclusive));
        assert_eq!(observed.changed(Mode::Shared), None);
        assert_eq!(observed.ended(End::Released), None);
    }
}
