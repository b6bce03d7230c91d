//! A call of a verb that asks for leases, as the observer sees it: it begins, and ends once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{Error, Instant, LockName, Mode, Result};

use crate::event::{Event, RequestFacts};
use crate::keeper::{Held, Keeper};

/// Calls of this process so far: one for each name that was asked for.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// A call under way. Dropping it before it has ended reports that it was cancelled.
#[derive(Debug)]
pub(crate) struct CallEvents<'a> {
    keeper: &'a Arc<Keeper>,
    names: &'a [LockName],
    mode: Mode,
    label: Option<&'a str>,
    /// The number of the call for the first name; the others follow.
    first: u64,
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
        let events = Self { keeper, names, mode, label, first, started, has_ended: false };
        for (call, request) in events.calls() {
            keeper.observe(&Event::Acquiring { call, request });
        }
        events
    }

    /// The call has this outcome, with a lease for each name, in the order of the names. Their
    /// events are reported here, also if they have ended since.
    pub(crate) fn end(mut self, outcome: Result<Option<&[Held]>, &Error>) {
        self.has_ended = true;
        match outcome {
            Ok(Some(leases)) => {
                for ((call, _), held) in self.calls().zip(leases) {
                    self.keeper.report_granted(call, &held.state, self.started);
                }
            }
            Ok(None) => {
                self.report(|call, request, waited| Event::Busy { call, request, waited });
            }
            Err(Error::Timeout { .. }) => {
                self.report(|call, request, waited| Event::TimedOut { call, request, waited });
            }
            Err(error) => {
                self.report(|call, request, waited| Event::Failed { call, request, waited, error });
            }
        }
    }

    fn report<'e>(&'e self, event: impl Fn(u64, RequestFacts<'e>, Duration) -> Event<'e>) {
        let waited = self.keeper.store.now().saturating_since(self.started);
        for (call, request) in self.calls() {
            self.keeper.observe(&event(call, request, waited));
        }
    }

    fn calls(&self) -> impl Iterator<Item = (u64, RequestFacts<'a>)> + use<'a> {
        let (mode, label) = (self.mode, self.label);
        (self.first..).zip(self.names.iter().map(move |name| RequestFacts { name, mode, label }))
    }
}

impl Drop for CallEvents<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.report(|call, request, waited| Event::Cancelled { call, request, waited });
        }
    }
}
