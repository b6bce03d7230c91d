//! What a holder does with its lease.

use std::future::ready;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, join_all};
use futures_util::poll;
use leasehold_core::{Error, Instant, LossReason, Reply, Result};

use super::replies::{may_pass, renewal_outcome, unusable_reply};
use super::state::Held;
use crate::lost::End;
use crate::store::clocked::TimedAnswer;

impl Held {
    /// The caller has all of these leases from now on. False, and it has none of them, if one was
    /// given back or has ended before.
    pub(crate) fn mark_delivered(held: &[Self]) -> bool {
        held.first().is_some_and(|first| first.keeper.mark_delivered(held))
    }

    /// The error for a lease that has ended before any caller had it.
    pub(crate) fn ended(&self) -> Error {
        let reason = self.state.signal.check().and_then(End::loss);
        self.state.lost(reason.unwrap_or(LossReason::Expired))
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.ensure_held_at(self.keeper.store.now())
    }

    /// The same for several leases at one time.
    pub(crate) fn ensure_held_at(&self, now: Instant) -> Result<()> {
        let loss = self.state.signal.check_here(now).and_then(End::loss);
        loss.map_or(Ok(()), |reason| Err(self.state.lost(reason)))
    }

    /// Takes note of the answers to the renewals of these leases, perhaps for another ttl: of each,
    /// also of those after one that is lost.
    pub(crate) async fn renewed(
        held: &[Self],
        another: Option<Duration>,
        timed: &TimedAnswer,
        replies: &[Reply],
    ) -> Result<()> {
        let Some(Self { keeper, .. }) = held.first() else { return Ok(()) };
        let (mut granted, mut others) = (Vec::new(), Vec::new());
        for (held, reply) in held.iter().zip(replies) {
            match renewal_outcome(reply, held.state.grant_token()) {
                Some(Ok(grant)) => granted.push((&*held.state, grant)),
                Some(Err(reason)) => others.push(Either::Left(held.not_held(reason, another))),
                None => {
                    let error = unusable_reply(&held.state.name, reply).into();
                    others.push(Either::Right(ready(Err(error))));
                }
            }
        }
        if let Some(ttl) = another {
            keeper.change_ttl(granted.iter().map(|(state, _)| *state), ttl);
        }
        keeper.extend(granted, timed);
        join_all(others).await.into_iter().collect()
    }

    /// A renewal found that the store does not know the lease (any more). The lease is taken back
    /// if that is allowed, perhaps for another ttl.
    async fn not_held(&self, reason: LossReason, another: Option<Duration>) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        if !keeper.may_reclaim(state, reason) {
            keeper.lose(state, reason);
            return Err(state.lost(reason));
        }
        let result = keeper.reclaim(state).await;
        let failure = result.as_ref().err().cloned();
        keeper.reclaimed(state, reason, result);
        self.ensure_held()?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        if let Some(ttl) = another {
            keeper.change_ttl([&**state], ttl);
        }
        Ok(())
    }

    /// Lets go of the lease, at `now`. If no answer comes, the keeper goes on with the release,
    /// which is as good.
    pub(crate) async fn release(&self, now: Instant) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        match state.signal.check_at(now) {
            Some(End::Lost(reason)) => return Err(state.lost(reason)),
            Some(End::Released) => return Ok(()), // by the keeper, before anybody had it
            None => {}
        }
        let Some((action, wakeup)) = keeper.begin_release(state, now) else { return Ok(()) };
        let mut released = std::pin::pin!(keeper.store.apply_at(&state.name, action, now));
        // The release is sent before the next in line asks: the store serves first what comes
        // first.
        let first = poll!(released.as_mut());
        wakeup.deliver();
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => released.await,
        };
        match answer {
            Ok(timed) => {
                state.finish();
                keeper.publish(&state.name, keeper.end_notice(state, now)).await;
                match renewal_outcome(&timed.answer.reply, state.grant_token()) {
                    Some(Err(reason)) => Err(state.lost(reason)),
                    Some(Ok(_)) | None => Ok(()),
                }
            }
            // Dropping the release leaves it to the keeper.
            Err(error) if error.kind().is_transient() => Ok(()),
            Err(error) => {
                if !may_pass(error.kind()) {
                    state.finish();
                }
                Err(error.into())
            }
        }
    }
}
