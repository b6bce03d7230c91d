//! The events of a call, for the observer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_core::{Error, Instant, LockName, Mode, Result};

use crate::event::{Event, RequestFacts};
use crate::keeper::{Held, Keeper};

/// The number of calls of this process so far, one for each name that was asked for.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The events of a call under way. Dropping them before the call has ended reports that it was
/// cancelled.
#[derive(Debug)]
pub(crate) struct CallEvents<'a> {
    keeper: &'a Arc<Keeper>,
    names: &'a [LockName],
    mode: Mode,
    label: Option<&'a str>,
    /// The number of the call for the first name; the others follow.
    pub(crate) first: u64,
    pub(crate) started: Instant,
    has_ended: bool,
}

impl<'a> CallEvents<'a> {
    pub(crate) fn begin(
        keeper: &'a Arc<Keeper>,
        names: &'a [LockName],
        mode: Mode,
        label: Option<&'a str>,
    ) -> Self {
        let first = CALLS.fetch_add(names.len() as u64, Ordering::Relaxed);
        let started = keeper.store.now();
        Self { keeper, names, mode, label, first, started, has_ended: false }
    }

    /// Reports the outcome of the call, with a lease for each name, in the order of the names. A
    /// lease that has ended since is reported, too.
    pub(crate) fn end(mut self, outcome: Result<Option<&[Held]>, &Error>) {
        self.has_ended = true;
        match outcome {
            Ok(Some(leases)) => {
                for (call, held) in (self.first..).zip(leases) {
                    self.keeper.report_granted(call, &held.state, self.started);
                }
            }
            Ok(None) => self.failed("busy", None),
            Err(error @ Error::Timeout { .. }) => self.failed("timeout", Some(error)),
            Err(error) => self.failed("error", Some(error)),
        }
    }

    fn failed(&self, outcome: &'static str, error: Option<&Error>) {
        let waited = self.keeper.store.now().saturating_since(self.started);
        for (call, name) in (self.first..).zip(self.names) {
            let request = RequestFacts { name, mode: self.mode, label: self.label };
            self.keeper.observe(&Event::Failed { call, request, waited, outcome, error });
        }
    }
}

impl Drop for CallEvents<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.failed("cancelled", None);
        }
    }
}
