//! Reports about a call that waits: to the observer meanwhile, and to its caller at the limit.

use leasehold_core::{Error, Holder, HolderId, Instant, Place, Status, StoreError};

use super::request::Asked;
use crate::event::{Event, RequestFacts};
use crate::failures::{FailureStreak, is_no_answer};
use crate::keeper::Behind;
use crate::replies::waits_for_capacity;

/// The number of holders that are inspected when a wait has ended: 32, each some hundred bytes.
const STATUS_LIMIT: u32 = 32;

/// The events of a call that were reported so far, across all its attempts.
#[derive(Debug, Default)]
pub(super) struct Reported {
    failures: FailureStreak,
    is_waiting: bool,
    own_lease: bool,
}

impl Reported {
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
    /// Reports that the store is in trouble, and that the call continues. A try does not wait, so
    /// it is not delayed.
    pub(super) fn report_delayed(&self, reported: &mut Reported, cause: &StoreError) {
        if !self.waits() {
            return;
        }
        let lasting = reported.failures.record(cause, self.keeper.store.now()).unwrap_or_default();
        self.keeper.observe(&Event::Delayed { request: self.facts(), cause, lasting });
    }

    /// Reports that the call has joined the queue.
    pub(super) fn report_queued(&self, reported: &mut Reported, id: HolderId, place: &Place) {
        reported.failures.end();
        let request = self.facts();
        self.keeper.observe(&Event::Waiting { request, ahead: Some(place.ahead) });
        if let Some(capacity) = place.other_capacity {
            let text = &waits_for_capacity(request.name, request.mode, capacity);
            self.keeper.observe(&Event::WaitingForCapacity { request, capacity, text });
        }
        self.report_own(reported, Some(id));
    }

    /// Reports that the call stands in line behind others of its client, which may have a lease.
    pub(super) fn report_behind(&self, reported: &mut Reported, behind: Behind) {
        reported.failures.end();
        let request = self.facts();
        self.keeper.observe(&Event::Waiting { request, ahead: Some(behind.ahead) });
        if let Some(token) = behind.own
            && !std::mem::replace(&mut reported.own_lease, true)
        {
            self.keeper.observe(&Event::OwnLease { request, token });
        }
    }

    /// Reports that the name is busy, at a store without a queue.
    pub(super) fn report_busy(&self, reported: &mut Reported) {
        let is_new = !std::mem::replace(&mut reported.is_waiting, true);
        if reported.failures.end() || is_new {
            self.keeper.observe(&Event::Waiting { request: self.facts(), ahead: None });
        }
        self.report_own(reported, None);
    }

    fn facts(&self) -> RequestFacts<'_> {
        let Self { name, mode, options, .. } = self;
        RequestFacts { name, mode: *mode, label: options.label.as_deref() }
    }

    /// Reports a lease of this client that is in the way. `queued` is the attempt, if it is in the
    /// queue. A message may already have brought its grant, and the attempt's own lease does not
    /// count.
    fn report_own(&self, reported: &mut Reported, queued: Option<HolderId>) {
        if std::mem::replace(&mut reported.own_lease, true) {
            return;
        }
        let request = self.facts();
        let is_queued = queued.is_some();
        let (name, mode) = (request.name, request.mode);
        if let Some(token) = self.keeper.own_in_the_way(name, mode, is_queued, queued) {
            self.keeper.observe(&Event::OwnLease { request, token });
        }
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
