//! What is done to a held lease by its holder.

use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use leasehold_core::{Error, LossReason, Reply, Result};

use super::answers::{renewal_outcome, unexpected_reply};
use super::life::Held;
use crate::lost::End;
use crate::store::clocked::TimedAnswer;

impl Held {
    /// The caller has all of these from now on; false, and none, if one was given back or has
    /// ended before.
    pub(crate) fn mark_delivered(held: &[Self]) -> bool {
        held.first().is_some_and(|first| first.keeper.mark_delivered(held))
    }

    /// That it has ended before anybody had it.
    pub(crate) fn ended(&self) -> Error {
        let reason = self.state.signal.check().and_then(End::loss);
        self.state.lost(reason.unwrap_or(LossReason::Expired))
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        let loss = self.state.signal.check().and_then(End::loss);
        loss.map_or(Ok(()), |reason| Err(self.state.lost(reason)))
    }

    /// Takes note of the answer to a renewal, for another ttl perhaps. What the store has forgotten
    /// is taken back if it may be.
    pub(crate) async fn renewed(
        &self,
        another: Option<Duration>,
        timed: &TimedAnswer,
        reply: &Reply,
    ) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        match renewal_outcome(reply, state.grant_token()) {
            Some(Ok(grant)) => {
                if let Some(ttl) = another {
                    keeper.change_ttl(state, ttl);
                }
                keeper.extend([(&**state, grant)], timed);
                Ok(())
            }
            Some(Err(reason)) if keeper.may_reclaim(state, reason) => {
                let result = keeper.reclaim(state).await;
                let failure = result.as_ref().err().cloned();
                keeper.reclaimed(state, reason, result);
                self.ensure_held()?;
                if let Some(error) = failure {
                    return Err(error.into());
                }
                if let Some(ttl) = another {
                    keeper.change_ttl(state, ttl);
                }
                Ok(())
            }
            Some(Err(reason)) => {
                keeper.lose(state, reason);
                Err(state.lost(reason))
            }
            None => Err(unexpected_reply(reply).into()),
        }
    }

    /// Lets go now. Without an answer it is left to the keeper, which is as good.
    pub(crate) async fn release(&self) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        match state.signal.check() {
            Some(End::Lost(reason)) => return Err(state.lost(reason)),
            Some(End::Released) => return Ok(()), // by the keeper, before anybody had it
            None => {}
        }
        let Some((action, wakeup)) = keeper.begin_release(state) else { return Ok(()) };
        let mut released = std::pin::pin!(keeper.store.apply(&state.name, action));
        // On its way before the next in line asks: what comes first is served first.
        let first = poll!(released.as_mut());
        wakeup.deliver();
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => released.await,
        };
        match answer {
            Ok(timed) => {
                state.finish();
                keeper.publish(&state.name, keeper.end_notice(state)).await;
                match renewal_outcome(&timed.answer.reply, state.grant_token()) {
                    Some(Err(reason)) => Err(state.lost(reason)),
                    Some(Ok(_)) | None => Ok(()),
                }
            }
            // Dropping it leaves it to the keeper.
            Err(error) if error.kind().is_transient() => Ok(()),
            Err(error) => {
                state.finish();
                Err(error.into())
            }
        }
    }
}
