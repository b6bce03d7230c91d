//! A call that waits: for its turn in a queue, at a store without a queue, or for a store that is
//! away.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::{Error, Result, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use super::call::AcquireCall;
use super::request::{Limit, is_granted_in_vain};
use crate::keeper::{Step, Turn};

/// If too few nodes of a quorum answer in time, a try asks again for 500 ms: several rounds of the
/// usual timeout. A hiccup is over by then; any other trouble lasts.
const QUORUM_PATIENCE: Duration = Duration::from_millis(500);

impl AcquireCall<'_> {
    /// Decides whether to ask again after a request without an answer, and waits until it is time.
    /// A refusal is an answer, and ends the call.
    pub(super) async fn after_failure(&mut self, error: StoreError) -> Result<()> {
        let asked = self.asked;
        if !error.kind().is_outage() {
            let is_unanswered = self.own.attempt.unanswered;
            return Err(self.refuse(if is_unanswered { error.maybe_executed() } else { error }));
        }
        let so_far = asked.keeper.store.now().saturating_since(asked.started);
        let tries_on = match asked.limit {
            Limit::Try if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) => {
                error.may_have_executed() && so_far < QUORUM_PATIENCE
            }
            Limit::Try => error.may_have_executed() && !is_granted_in_vain(&error),
            Limit::Forever | Limit::Within(_) => true,
        };
        if tries_on && self.retry.is_before(asked.give_up()) {
            asked.report_trouble(&mut self.reported, &error);
            self.retry.pause(&asked.keeper.store, asked.give_up()).await;
            return Ok(());
        }
        let name = asked.name.clone();
        if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) {
            return Err(error.into());
        }
        let may_be_settled = is_granted_in_vain(&error) || !self.own.attempt.unanswered;
        let source = self.reported.cause_of(error);
        if !may_be_settled || !self.own.settle(asked.leave_until()).await {
            return Err(Error::indeterminate(name, asked.options.ttl, source));
        }
        Err(source.into())
    }

    /// Waits until the keeper sends the call its turn, or until the limit.
    pub(super) async fn wait(&mut self, mut turn: oneshot::Receiver<Turn>) -> Result<Step> {
        let asked = self.asked;
        let turn = match select(&mut turn, asked.at_limit()).await {
            Either::Left((turn, _)) => turn,
            Either::Right(((), _)) => {
                // The failure is read first, because it is dropped with the last waiter of the
                // name.
                let failure = asked.keeper.poll_failure(asked.name);
                if self.own.take() {
                    return Box::pin(self.leave(failure)).await;
                }
                // The call had its turn at the same moment.
                turn.await
            }
        };
        self.read_clock();
        match turn {
            Ok(Ok(Step::Ask(mut ask))) => Ok(match self.own.take_over(&mut ask) {
                true => Step::Ask(ask),
                false => Step::Join,
            }),
            Ok(Ok(Step::Held(held))) => {
                self.own.had_turn();
                match self.fetch(held) {
                    Some(held) => Ok(Step::Held(held)),
                    None if asked.is_over() => Err(asked.timeout(asked.leave_until(), true).await),
                    None => Ok(Step::Join),
                }
            }
            Ok(Ok(step)) => {
                self.own.finish();
                Ok(step)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                self.own.finish();
                self.skipped()
            }
        }
    }

    /// Leaves the queue. The error says what was in the way: a store that cannot be reached, or the
    /// holder of the lock.
    async fn leave(&mut self, failure: Option<StoreError>) -> Result<Step> {
        let until = self.asked.leave_until();
        let left = self.own.cancel_now(until).await;
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        left?;
        Err(self.asked.timeout(until, true).await)
    }

    /// Waits until it is time to poll a store without a queue, but not past the limit.
    pub(super) async fn wait_to_poll(
        &mut self,
        retry_after: Duration,
        took: Duration,
    ) -> Result<()> {
        let (asked, poller) = (self.asked, &mut self.poller);
        let keeper = asked.keeper;
        let waiting = async {
            match poller {
                Some(poller) => poller.wait(&keeper.store, retry_after, took).await,
                None => {
                    // A release before the subscription sent its message to nobody here, so the
                    // call polls once more.
                    let name = asked.name;
                    *poller = Some(keeper.poller(name, asked.keeper.jitter()).await);
                }
            }
        };
        match select(pin!(waiting), asked.at_limit()).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(asked.timeout(asked.leave_until(), false).await),
        }
    }
}
