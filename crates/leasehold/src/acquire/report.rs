//! Reports about a call: to the observer, and at the limit to its caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{
    Error, FencingToken, Holder, HolderId, Instant, LeaseOptions, LockName, Mode, Place, Result,
    Status, StoreError, show_duration,
};

use super::request::{Asked, Limit};
use crate::event::{Event, RequestFacts};
use crate::failures::{FailureStreak, is_no_answer};
use crate::keeper::{Held, Keeper, Waiting};
use crate::replies::waits_for_capacity;

/// The number of holders that are inspected when a wait has ended: 32, each some hundred bytes.
const STATUS_LIMIT: u32 = 32;

/// The number of calls of this process so far, one for each name that was asked for.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The events of a call under way. Dropping them before the call has ended reports that it was
/// cancelled.
pub(crate) struct CallEvents<'a> {
    /// The request for the first name.
    pub(crate) first: Asked<'a>,
    names: &'a [LockName],
    has_ended: bool,
}

impl<'a> CallEvents<'a> {
    /// Begins a call for these names, of which there is at least one.
    pub(crate) fn begin(
        keeper: &'a Arc<Keeper>,
        names: &'a [LockName],
        mode: Mode,
        options: &'a Arc<LeaseOptions>,
        limit: Limit,
    ) -> Self {
        let call = CALLS.fetch_add(names.len() as u64, Ordering::Relaxed);
        let (name, started, gathers, joins) = (&names[0], keeper.store.now(), None, false);
        let first = Asked { keeper, name, mode, options, gathers, joins, limit, started, call };
        Self { first, names, has_ended: false }
    }

    /// Reports the outcome of the call, with a lease for each name, in the order of the names. A
    /// lease that has ended since is reported, too.
    pub(crate) fn end(mut self, outcome: Result<Option<&[Held]>, &Error>) {
        self.has_ended = true;
        match outcome {
            Ok(Some(leases)) => {
                let Asked { keeper, call, started, .. } = self.first;
                for (call, held) in (call..).zip(leases) {
                    keeper.report_granted(call, &held.state, started);
                }
            }
            Ok(None) => self.failed("busy", None),
            Err(error @ Error::Timeout { .. }) => self.failed("timeout", Some(error)),
            Err(error) => self.failed("error", Some(error)),
        }
    }

    fn failed(&self, outcome: &'static str, error: Option<&Error>) {
        let Asked { keeper, started, call, .. } = self.first;
        let waited = keeper.store.now().saturating_since(started);
        for (call, name) in (call..).zip(self.names) {
            let request = RequestFacts { name, ..self.first.facts() };
            keeper.observe(&Event::Failed { call, request, waited, outcome, error });
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

/// The events of a call that were reported so far, across all its attempts.
#[derive(Debug, Default)]
pub(super) struct Reported {
    failures: FailureStreak,
    is_waiting: bool,
}

impl Reported {
    /// The error of the last request, if that failed.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.failures.cause().cloned()
    }

    /// The cause of an error that ends a call. The error of a request that was cut off at the limit
    /// says less than the error before it.
    pub(super) fn cause_of(&self, error: StoreError) -> StoreError {
        match self.failures.cause() {
            Some(before) if is_no_answer(&error) => before.clone(),
            Some(_) | None => error,
        }
    }
}

impl Asked<'_> {
    fn facts(&self) -> RequestFacts<'_> {
        RequestFacts { name: self.name, mode: self.mode, label: self.options.label.as_deref() }
    }

    fn report(&self, ahead: Option<u32>, own: Option<FencingToken>, cause: Option<&StoreError>) {
        let (call, request) = (self.call, self.facts());
        self.keeper.observe(&Event::Waiting { call, request, ahead, own, cause });
    }

    /// Reports that the store is in trouble, and that the call continues. A try does not wait, so
    /// nothing is reported about it.
    pub(super) fn report_trouble(&self, reported: &mut Reported, cause: &StoreError) {
        if self.waits() && reported.failures.record(cause) {
            self.report(None, None, Some(cause));
        }
    }

    /// Reports that the call has joined the queue as attempt `id`.
    pub(super) fn report_queued(&self, reported: &mut Reported, id: HolderId, place: &Place) {
        reported.failures.end();
        let capacity = place.other_capacity;
        let cause = capacity.map(|capacity| waits_for_capacity(self.name, self.mode, capacity));
        self.report(Some(place.ahead), self.own_in_the_way(Some(id)), cause.as_ref());
    }

    /// Reports that the call still waits, if the requests before had failed.
    pub(super) fn report_goes_on(&self, reported: &mut Reported, ahead: u32) {
        if reported.failures.end() {
            self.report(Some(ahead), None, None);
        }
    }

    /// Reports that the call stands in line behind others of its client, which may have a lease.
    pub(super) fn report_behind(&self, reported: &mut Reported, place: &Waiting) {
        reported.failures.end();
        self.report(Some(place.ahead), place.own, None);
    }

    /// Reports that the name is busy, at a store without a queue.
    pub(super) fn report_busy(&self, reported: &mut Reported) {
        let is_new = !std::mem::replace(&mut reported.is_waiting, true);
        if reported.failures.end() || is_new {
            self.report(None, self.own_in_the_way(None), None);
        }
    }

    /// Warns of a future that was polled `late`.
    pub(super) fn report_late_poll(&self, late: Duration) {
        if late >= CLAIM_WINDOW {
            let (name, late) = (self.name, show_duration(late));
            let text = format!(
                "{name}: its waiting future was polled {late} late, so its turn may have passed: \
                 something blocks the thread that polls it"
            );
            self.keeper.observe(&Event::Warning { text: &text });
        }
    }

    /// The lease of this client that is in the way. `queued` is the attempt, if it is in the queue.
    /// A message may already have brought its grant, and the attempt's own lease does not count.
    fn own_in_the_way(&self, queued: Option<HolderId>) -> Option<FencingToken> {
        // Only an observer is told.
        let own = || self.keeper.own_in_the_way(self.name, self.mode, queued.is_some(), queued);
        self.keeper.is_observed().then(own).flatten()
    }

    /// The error for a call whose limit was reached. It names the holder that is in the way, if the
    /// store answers before `until`.
    pub(super) async fn timeout(&self, until: Instant, is_queued: bool) -> Error {
        let (keeper, name) = (self.keeper, self.name.clone());
        let own = keeper.own_in_the_way(&name, self.mode, is_queued, None);
        // The clock is read before the inspection. So a holder that was there when the call began
        // is shown as holding for longer than the call has waited.
        let waited = keeper.store.now().saturating_since(self.started);
        let mut holders = self.status(until).await.holders;
        let by_self = |holder: &Holder| own.is_some() && holder.id.client == keeper.client;
        let first = holders.iter().position(by_self);
        let others = u32::try_from(holders.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let holder = match holders.is_empty() {
            true => None,
            false => Some(Box::new(holders.swap_remove(first.unwrap_or(0)))),
        };
        Error::timeout(name, waited, holder, others, first.is_some())
    }

    /// The status of the name, which is empty if the store does not answer: a report can do without
    /// it.
    async fn status(&self, until: Instant) -> Status {
        let look = self.keeper.store.inspect(self.name, STATUS_LIMIT, Some(until));
        *Box::pin(look).await.unwrap_or_default()
    }
}
