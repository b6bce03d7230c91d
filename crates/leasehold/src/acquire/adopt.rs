//! Adopting a lease that was handed out: the first caller that asks the store for it gets it.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Error, Grant, Lease, LeaseOptions, LossReason, Reply, Result, StoreError, Take,
};

use super::report::CallEvents;
use super::request::{Asked, Limit, OwnAttempt, Retry};
use crate::keeper::{Held, Keeper, Validity};
use crate::replies::{refused, unexpected_reply};

/// The time for which a store that does not answer is asked again: 5 s, the same as
/// the time to connect (5 s), or the ttl if that is less. Nobody renews the lease meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes over a lease. Only the first caller succeeds.
pub(crate) async fn adopt(keeper: &Arc<Keeper>, lease: Lease) -> Result<Held> {
    let defaults = (*keeper.defaults).clone();
    let options = Arc::new(LeaseOptions { ttl: lease.ttl, once_per: None, ..defaults });
    options.check()?;
    lease.mode.check()?;
    keeper.store.bounds.check(options.ttl, options.least_validity())?;
    let names = slice::from_ref(&lease.name);
    let limit = Limit::Within(PATIENCE.min(lease.ttl));
    let events = CallEvents::begin(keeper, names, lease.mode, &options, limit);
    let adopted = ask(&events.first, &lease).await;
    events.end(adopted.as_ref().map(|held| Some(slice::from_ref(held))));
    adopted
}

async fn ask(asked: &Asked<'_>, lease: &Lease) -> Result<Held> {
    let (keeper, store, until) = (asked.keeper, &asked.keeper.store, asked.give_up());
    // An attempt that is dropped while the store may have it is cancelled. Then the lease ends if
    // the attempt has adopted it; otherwise the lease is unchanged.
    let (mut own, mut retry) = (OwnAttempt::new(asked), Retry::new(keeper.jitter(), asked.started));
    own.register()?;
    asked.prepared().await?;
    loop {
        let adoption = |take: Take| take.with_from(Some(lease.holder));
        let error = match own.send(adoption, store.now(), until).await {
            Ok(timed) => {
                let grant = outcome(&timed.answer.reply, lease)?;
                let until = store.valid_until(&timed, lease.ttl);
                let granted = (grant, Validity { until, is_claimed: true });
                let held = keeper.grant(own.asked(), None, granted, timed.received);
                // If the client was closed, the drop of the attempt ends it once more.
                let held = held.ok_or(Error::Closed)?;
                own.finish();
                // It may have ended before the caller has it.
                keeper.ensure_open()?;
                held.ensure_held_at(store.now())?;
                return Ok(held);
            }
            Err(error) if error.kind().is_outage() => error,
            Err(error) => return Err(failure(error, lease, &own)),
        };
        retry.pause(store, until).await;
        if asked.is_over() {
            return Err(failure(error, lease, &own));
        }
    }
}

/// The result of the store's final reply.
fn outcome(reply: &Reply, Lease { name, token, mode, .. }: &Lease) -> Result<Grant> {
    let not_adopted = |reason| Err(Error::not_adopted(name.clone(), *token, reason));
    match reply {
        Reply::Granted(grant) => Ok(*grant),
        Reply::Closed | Reply::NotHeld => not_adopted(LossReason::Vanished),
        Reply::Revoked => not_adopted(LossReason::Revoked),
        Reply::Refused(refusal) => Err(refused(name, *mode, *refusal).into()),
        other => Err(unexpected_reply(other).into()),
    }
}

fn failure(error: StoreError, lease: &Lease, own: &OwnAttempt<'_>) -> Error {
    match own.known {
        true => Error::indeterminate(lease.name.clone(), lease.ttl, error),
        false => error.into(),
    }
}
