//! What the observer is told of leases: who has one, as what, and how it ended.

use std::time::Duration;

use leasehold_core::Mode;

use super::lease::LeaseState;
use super::life::Keeper;
use crate::event::Event;
use crate::lost::End;

impl Keeper {
    /// Whoever made the call has this lease, which was delivered.
    pub(crate) fn report_granted(&self, call: u64, state: &LeaseState, waited: Duration) {
        let mode = state.mode();
        self.observe(&Event::Granted {
            call,
            holder: state.id,
            name: &state.name,
            mode,
            label: state.label(),
            token: state.token(),
            waited,
        });
        if let Some(end) = state.reporting.granted(mode) {
            self.report_one_end(state, mode, end);
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

    /// A lease has ended that was kept.
    pub(super) fn report_end(&self, state: &LeaseState, end: End) {
        if !state.is_delivered() {
            self.observe(&Event::Undelivered {
                holder: state.id,
                name: &state.name,
                mode: state.mode(),
                label: state.label(),
                token: state.token(),
                held: self.held(state),
            });
        } else if let Some(mode) = state.reporting.ended(end) {
            self.report_one_end(state, mode, end);
        }
    }

    fn report_one_end(&self, state: &LeaseState, mode: Mode, end: End) {
        let (holder, name, label) = (state.id, &state.name, state.label());
        let (token, held) = (state.token(), self.held(state));
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

    fn held(&self, state: &LeaseState) -> Duration {
        self.store.now().saturating_since(state.granted_at)
    }
}
