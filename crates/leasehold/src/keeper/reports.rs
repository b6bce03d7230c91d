//! What the observer is told of leases: who has one, as what, and how it ended.

use leasehold_core::{Instant, Mode};

use super::lease::LeaseState;
use super::life::Keeper;
use crate::event::Event;
use crate::lost::End;

impl Keeper {
    /// Whoever made the call at `started` has this lease, which was delivered.
    pub(crate) fn report_granted(&self, call: u64, state: &LeaseState, started: Instant) {
        let mode = state.mode();
        self.observe(&Event::Granted {
            call,
            holder: state.id,
            name: &state.name,
            mode,
            label: state.label(),
            token: state.token(),
            waited: state.held_from().saturating_since(started),
        });
        if let Some(end) = state.reporting.granted(mode) {
            self.report_one_end(state, mode, end, self.store.now());
        }
    }

    /// A lease is held as something else from now on.
    pub(crate) fn report_mode(&self, state: &LeaseState, mode: Mode) {
        if let Some(from) = state.reporting.changed(mode) {
            self.observe(&Event::ModeChanged {
                holder: state.id,
                name: &state.name,
                from,
                mode,
                label: state.label(),
                token: state.token(),
            });
        }
    }

    /// A lease has ended that was kept, and it is `now`.
    pub(super) fn report_end(&self, state: &LeaseState, end: End, now: Instant) {
        if !state.is_delivered() {
            self.observe(&Event::Undelivered {
                holder: state.id,
                name: &state.name,
                mode: state.mode(),
                label: state.label(),
                token: state.token(),
                held: now.saturating_since(state.granted_at),
            });
        } else if let Some(mode) = state.reporting.ended(end) {
            self.report_one_end(state, mode, end, now);
        }
    }

    fn report_one_end(&self, state: &LeaseState, mode: Mode, end: End, now: Instant) {
        let (holder, name, label) = (state.id, &state.name, state.label());
        let (token, held) = (state.token(), now.saturating_since(state.granted_at));
        match end {
            End::Lost(reason) => {
                let cause = state.cause(reason);
                let cause = cause.as_ref();
                self.observe(&Event::Lost {
                    holder,
                    name,
                    mode,
                    label,
                    token,
                    held,
                    reason,
                    cause,
                });
            }
            End::Released => {
                self.observe(&Event::Released { holder, name, mode, label, token, held });
            }
        }
    }
}
