//! Adopting a lease that was handed out: the first caller that asks the store for it gets it.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Action, Adopt, Error, Grant, Lease, Reply, Result, StoreError, StoreErrorKind,
};

use super::call::CallEvents;
use super::request::{Asked, Limit, OwnAttempt};
use super::retry::Retry;
use crate::keeper::{Held, Keeper};
use crate::replies::{refused, renewal_outcome, unexpected_reply};

/// The time for which a store that does not answer is asked again: 5 s, the same as
/// the time to connect (5 s), or the ttl if that is less. Nobody renews the lease meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes over a lease. Only the first caller succeeds.
pub(crate) async fn adopt(keeper: &Arc<Keeper>, lease: Lease) -> Result<Held> {
    let mut options = keeper.defaults.clone();
    // The acquire of the lease has already set how long the name is remembered.
    (options.ttl, options.remember) = (lease.ttl, None);
    options.check()?;
    lease.mode.check()?;
    keeper.store.bounds.check(options.ttl, options.least_validity())?;
    let names = slice::from_ref(&lease.name);
    let events = CallEvents::begin(keeper, names, lease.mode, options.label.as_deref());
    let asked = Asked {
        keeper,
        name: &lease.name,
        mode: lease.mode,
        options: &options,
        pulse: None,
        joins: false,
        limit: Limit::Within(PATIENCE.min(lease.ttl)),
        started: events.started,
        call: events.first,
    };
    let adopted = ask(&asked, &lease).await;
    events.end(adopted.as_ref().map(|held| Some(slice::from_ref(held))));
    adopted
}

async fn ask(asked: &Asked<'_>, lease: &Lease) -> Result<Held> {
    let (keeper, store, until) = (asked.keeper, &asked.keeper.store, asked.give_up());
    let adoption = |request| Action::Adopt(Adopt::new(lease.holder, Some(lease.token), request));
    // An attempt that is dropped while the store may have it is cancelled. Then the lease ends if
    // the attempt has adopted it; otherwise the lease is unchanged.
    let (mut own, mut retry) = (OwnAttempt::new(asked), Retry::new(keeper.jitter(), asked.started));
    loop {
        own.join(false, store.now())?;
        let late = || StoreError::new(StoreErrorKind::Timeout, "the store answers too late");
        let sampled = match store.has_sample() {
            true => Ok(()),
            false => asked.sample_clock(until).await,
        };
        let answered = match sampled {
            Ok(()) => own.send(adoption, store.now(), until).await,
            Err(error) => Err(error),
        };
        let error = match answered {
            Ok(timed) => match &timed.answer.reply {
                // This answer brought a sample of the store's clock, so the next request is in
                // time.
                Reply::Late => late(),
                Reply::Stale => {
                    own.renumber();
                    late()
                }
                reply => {
                    let grant = outcome(reply, lease)?;
                    let valid_until = store.valid_until(&timed, grant, lease.ttl);
                    own.take_is_waiter();
                    let held = keeper.keep(&own.attempt, grant.token, valid_until, timed.received);
                    // If the client was closed, the drop of the attempt cancels it once more.
                    let held = held.ok_or(Error::Closed)?;
                    // From now on, a release takes care of late copies.
                    own.finish();
                    return match Held::mark_delivered(slice::from_ref(&held)) {
                        true => Ok(held),
                        // The lease has ended meanwhile.
                        false => Err(keeper.ensure_open().err().unwrap_or_else(|| held.ended())),
                    };
                }
            },
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
fn outcome(reply: &Reply, lease: &Lease) -> Result<Grant> {
    let Lease { name, token, mode, .. } = lease;
    match (reply, renewal_outcome(reply, *token)) {
        (_, Some(Ok(grant))) => Ok(grant),
        (_, Some(Err(reason))) => Err(Error::not_adopted(name.clone(), *token, reason)),
        (Reply::Refused(refusal), None) => Err(refused(name, *mode, *refusal).into()),
        (other, None) => Err(unexpected_reply(other).into()),
    }
}

fn failure(error: StoreError, lease: &Lease, own: &OwnAttempt) -> Error {
    match own.known {
        true => Error::indeterminate(lease.name.clone(), lease.ttl, error),
        false => error.into(),
    }
}
