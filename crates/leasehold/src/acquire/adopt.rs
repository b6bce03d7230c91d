//! Adopting a lease that was handed out: the first caller that asks the store for it gets it.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Backoff;
use leasehold_core::{
    Acquire, Action, Adopt, Error, FencingToken, Grant, HolderId, Instant, Lease, LeaseOptions,
    Operation, Reply, Result, StoreError, StoreErrorKind,
};

use super::events::CallEvents;
use super::retry::RETRY_BACKOFF;
use crate::engine::Engine;
use crate::keeper::{self, Held, Keeper, renewal_outcome, unexpected_reply};
use crate::refusal::refused;
use crate::store::clocked::TimedAnswer;

/// A store that does not answer is asked for 5 s, as `connect_timeout`, or for the ttl if that is
/// less: nobody renews the lease meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes over a lease, for the first who does.
pub(crate) async fn adopt(engine: &Engine, lease: Lease) -> Result<Held> {
    let mut options = engine.defaults.clone();
    options.ttl = lease.ttl;
    options.check()?;
    lease.mode.check()?;
    engine.keeper.store.bounds.check(options.ttl, options.least_validity())?;
    let label = options.label.clone();
    let names = slice::from_ref(&lease.name);
    let events = CallEvents::begin(&engine.keeper, names, lease.mode, label.as_deref());
    let adopted = ask(engine, &lease, options).await;
    events.end(adopted.as_ref().map(|held| Some(slice::from_ref(held))));
    adopted
}

async fn ask(engine: &Engine, lease: &Lease, options: LeaseOptions) -> Result<Held> {
    engine.keeper.ensure_running()?;
    let store = &engine.keeper.store;
    let until = store.now() + PATIENCE.min(lease.ttl);
    let mut attempt = Adoption::new(engine, lease);
    let (first, longest) = RETRY_BACKOFF;
    let (mut backoff, mut jitter) = (Backoff::new(first, longest), engine.jitter());
    loop {
        engine.keeper.ensure_open()?;
        let late = || StoreError::new(StoreErrorKind::Timeout, "the store answers too late");
        let error = match attempt.send(engine, &options, until).await {
            Ok(timed) => match &timed.answer.reply {
                // The late answer was a sample of the store's clock.
                Reply::Late => late(),
                Reply::Stale => {
                    attempt = Adoption::new(engine, lease);
                    late()
                }
                reply => {
                    let grant = attempt.outcome(reply)?;
                    let valid_until = store.valid_until(&timed, grant, lease.ttl);
                    let held = attempt.granted(options, grant.token, valid_until, timed.received);
                    return match Held::mark_delivered(slice::from_ref(&held)) {
                        true => Ok(held),
                        // The lease has ended in this moment.
                        false => Err(held.ended()),
                    };
                }
            },
            Err(error) if error.kind().is_outage() => error,
            Err(error) => return Err(attempt.failure(error)),
        };
        let again = store.now() + backoff.next_delay(&mut jitter);
        if again >= until {
            return Err(attempt.failure(error));
        }
        store.clock.sleep_until(again).await;
    }
}

/// An attempt to adopt. Dropping it while the store may know it has the keeper cancel it: the lease
/// then ends if it was adopted, and stays as it was otherwise.
struct Adoption<'a> {
    keeper: &'a Arc<Keeper>,
    lease: &'a Lease,
    id: HolderId,
    nonce: u64,
    /// A copy is on its way.
    in_flight: bool,
    /// Some copy was never answered.
    unanswered: bool,
}

impl<'a> Adoption<'a> {
    fn new(engine: &'a Engine, lease: &'a Lease) -> Self {
        let (id, nonce) = engine.next_attempt();
        Self { keeper: &engine.keeper, lease, id, nonce, in_flight: false, unanswered: false }
    }

    async fn send(
        &mut self,
        engine: &Engine,
        options: &LeaseOptions,
        until: Instant,
    ) -> Result<TimedAnswer, StoreError> {
        let (store, lease) = (&self.keeper.store, self.lease);
        let on = |action| Operation::On { name: lease.name.clone(), action };
        if !store.has_sample() {
            // This asks for the time, which the request must carry.
            store.execute_until(on(Action::Inspect { limit: 0 }), until).await?;
        }
        let request = Acquire::new(self.id, lease.mode, lease.ttl)
            .with_nonce(self.nonce)
            .with_not_after(store.not_after_us(&lease.name, store.now()))
            .with_info(engine.info(options.label.clone()));
        let request = Adopt::new(lease.holder, Some(lease.token), request);
        self.in_flight = true;
        let result = store.execute_until(on(Action::Adopt(request)), until).await;
        self.in_flight = false;
        self.unanswered |= result.as_ref().is_err_and(StoreError::may_have_executed);
        result
    }

    /// The decision of the store.
    fn outcome(&mut self, reply: &Reply) -> Result<Grant> {
        let Lease { name, token, mode, .. } = self.lease;
        match (reply, renewal_outcome(reply, *token)) {
            (_, Some(Ok(grant))) => Ok(grant),
            (_, Some(Err(reason))) => {
                self.unanswered = false;
                Err(Error::not_adopted(name.clone(), *token, reason))
            }
            (Reply::Refused(refusal), None) => Err(refused(name, *mode, *refusal).into()),
            (other, None) => Err(unexpected_reply(other).into()),
        }
    }

    fn granted(
        &mut self,
        options: LeaseOptions,
        token: FencingToken,
        valid_until: Instant,
        now: Instant,
    ) -> Held {
        let attempt = keeper::Attempt {
            name: self.lease.name.clone(),
            id: self.id,
            nonce: self.nonce,
            mode: self.lease.mode,
            options,
            pulse: None,
            joins: false,
            ticket: None,
            // From now on a release sees to late copies.
            unanswered: std::mem::take(&mut self.unanswered),
        };
        self.keeper.keep(attempt, token, valid_until, now)
    }

    fn failure(&self, error: StoreError) -> Error {
        let name = self.lease.name.clone();
        match self.unanswered {
            true => Error::indeterminate(name, self.lease.ttl, error),
            false => error.into(),
        }
    }
}

impl Drop for Adoption<'_> {
    fn drop(&mut self) {
        if self.in_flight || self.unanswered {
            let cancel = Action::Cancel { id: self.id, unanswered: true };
            self.keeper.clean(self.lease.name.clone(), cancel, self.lease.ttl);
        }
    }
}
