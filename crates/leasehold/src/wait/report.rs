//! What is reported of a call that waits: to the observer meanwhile, and to its caller at the
//! limit.

use leasehold_core::{
    Action, Error, Holder, Instant, LockName, Mode, Operation, Place, Reply, StoreError,
};

use super::progress::Reported;
use super::{Call, Limit};
use crate::event::Event;
use crate::refusal::waits_for_capacity;

/// How many holders are inspected when a wait has ended: 32, each some hundred bytes.
const LOOK_LIMIT: u32 = 32;

impl Call<'_> {
    /// The store cannot be had, and the call goes on. A try does not wait, so it is not delayed.
    pub(super) fn report_delayed(&self, reported: &mut Reported, cause: &StoreError) {
        if self.limit == Limit::Try {
            return;
        }
        let lasting = reported.failures.record(cause, self.keeper.store.now()).unwrap_or_default();
        let (name, mode, label) = self.subject();
        self.keeper.observe(&Event::Delayed { name, mode, label, cause, lasting });
    }

    /// It has joined the queue.
    pub(super) fn report_queued(&self, reported: &mut Reported, place: &Place) {
        reported.failures.end();
        let (name, mode, label) = self.subject();
        self.keeper.observe(&Event::Waiting { name, mode, label, ahead: Some(place.ahead) });
        if let Some(capacity) = place.other_capacity {
            let text = &waits_for_capacity(name, mode, capacity);
            self.keeper.observe(&Event::WaitingForCapacity { name, mode, label, capacity, text });
        }
        self.report_own(reported, true);
    }

    /// It is busy, and there is no queue.
    pub(super) fn report_busy(&self, reported: &mut Reported) {
        let is_new = !std::mem::replace(&mut reported.is_waiting, true);
        if reported.failures.end() || is_new {
            let (name, mode, label) = self.subject();
            self.keeper.observe(&Event::Waiting { name, mode, label, ahead: None });
        }
        self.report_own(reported, false);
    }

    fn subject(&self) -> (&LockName, Mode, Option<&str>) {
        let request = self.request;
        (&request.name, request.mode, request.options.label.as_deref())
    }

    fn report_own(&self, reported: &mut Reported, is_queued: bool) {
        if std::mem::replace(&mut reported.own_lease, true) {
            return;
        }
        let (name, mode, label) = self.subject();
        if let Some(token) = self.keeper.own_in_the_way(name, mode, is_queued) {
            self.keeper.observe(&Event::OwnLease { name, mode, label, token });
        }
    }

    /// The limit was reached. Says who is in the way, if the store can say that before `until`.
    pub(super) async fn timeout(&self, until: Instant, is_queued: bool) -> Error {
        let (keeper, name) = (self.keeper, self.request.name.clone());
        let own = keeper.own_in_the_way(&name, self.request.mode, is_queued);
        let mut holders = self.holders(until).await;
        let by_self = |holder: &Holder| own.is_some() && holder.id.client == keeper.client;
        let first = holders.iter().position(by_self);
        let others = u32::try_from(holders.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let holder = match holders.is_empty() {
            true => None,
            false => Some(Box::new(holders.swap_remove(first.unwrap_or(0)))),
        };
        let waited = keeper.store.now().saturating_since(self.started);
        Error::timeout(name, waited, holder, others, first.is_some())
    }

    async fn holders(&self, until: Instant) -> Vec<Holder> {
        let look = Action::Inspect { limit: LOOK_LIMIT };
        let look = Operation::On { name: self.request.name.clone(), action: look };
        match self.keeper.store.execute_until(look, until).await.map(|timed| timed.answer.reply) {
            Ok(Reply::Status(status)) => status.holders,
            // What it was asked for is over anyway.
            Ok(_) | Err(_) => Vec::new(),
        }
    }
}
