//! What is told of a call that waits: to the observer meanwhile, and to its caller at the limit.

use leasehold_core::{Action, Error, Holder, Instant, Operation, Place, Reply, StoreError};

use super::Call;
use crate::event::Event;
use crate::failures::{FailureStreak, is_no_answer};
use crate::refusal::waits_for_capacity;

/// How many holders are looked at when a wait has ended: 32, each some hundred bytes.
const LOOK_LIMIT: u32 = 32;

/// What the observer knows of a call, over all its attempts.
#[derive(Debug, Default)]
pub(super) struct Told {
    trouble: FailureStreak,
    of_waiting: bool,
    of_own: bool,
}

impl Told {
    /// Why a call ends with this error: a request that was cut off at the limit says less than the
    /// one before it.
    pub(super) fn cause_of(&self, error: StoreError) -> StoreError {
        match self.trouble.cause() {
            Some(before) if is_no_answer(&error) => before.clone(),
            Some(_) | None => error,
        }
    }
}

impl Call<'_> {
    /// The store cannot be had, and the call goes on.
    pub(super) fn tell_delayed(&self, told: &mut Told, cause: &StoreError) {
        let (name, now) = (&self.asked.name, self.keeper.store.now());
        let lasting = told.trouble.record(cause, now).unwrap_or_default();
        self.keeper.observe(&Event::Delayed { name, cause, lasting });
    }

    /// It has joined the queue.
    pub(super) fn tell_queued(&self, told: &mut Told, place: &Place) {
        told.trouble.end();
        let name = &self.asked.name;
        self.keeper.observe(&Event::Waiting { name, ahead: Some(place.ahead) });
        if let Some(capacity) = place.other_capacity {
            let text = waits_for_capacity(name, self.asked.mode, capacity);
            self.keeper.observe(&Event::WaitingForCapacity { name, capacity, text: &text });
        }
        self.tell_own(told, true);
    }

    /// It is busy, and there is no queue.
    pub(super) fn tell_busy(&self, told: &mut Told) {
        let is_new = !std::mem::replace(&mut told.of_waiting, true);
        if told.trouble.end() || is_new {
            self.keeper.observe(&Event::Waiting { name: &self.asked.name, ahead: None });
        }
        self.tell_own(told, false);
    }

    fn tell_own(&self, told: &mut Told, is_queued: bool) {
        let name = &self.asked.name;
        if std::mem::replace(&mut told.of_own, true) {
            return;
        }
        if let Some(token) = self.keeper.own_in_the_way(name, self.asked.mode, is_queued) {
            self.keeper.observe(&Event::OwnLease { name, token });
        }
    }

    /// The limit was reached. Says who is in the way, if the store can say that before `until`.
    pub(super) async fn timeout(&self, until: Instant, is_queued: bool) -> Error {
        let (keeper, name) = (self.keeper, self.asked.name.clone());
        let own = keeper.own_in_the_way(&name, self.asked.mode, is_queued);
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
        let look = Operation::On { name: self.asked.name.clone(), action: look };
        match self.keeper.store.execute_until(look, until).await.map(|timed| timed.answer.reply) {
            Ok(Reply::Status(status)) => status.holders,
            // What it was asked for is over anyway.
            Ok(_) | Err(_) => Vec::new(),
        }
    }
}
