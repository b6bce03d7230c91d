//! Waiting until names are free, without taking them and without a place in their queues.

use std::time::Duration;

use futures_util::future::{Either, pending, select};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::POLL_INTERVAL;
use leasehold_core::{Error, Instant, LockName, Result, Status};

use crate::keeper::Keeper;
use crate::store::Subscription;

/// The shortest pause between two polls without a message: 50 ms. A lease that is about to end may
/// be renewed again and again.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Waits until all of these names are free at the same time.
pub(crate) async fn wait_free(
    keeper: &Keeper,
    names: &[LockName],
    limit: Option<Duration>,
) -> Result<()> {
    let started = keeper.store.now();
    let give_up = limit.map(|limit| started + limit);
    let mut call = FreeWait { keeper, started, give_up, jitter: keeper.jitter() };
    loop {
        let mut was_busy = false;
        for name in names {
            was_busy |= call.until_free(name).await?;
        }
        // While the call waited for one name, another may have been taken.
        if !was_busy || names.len() == 1 {
            return Ok(());
        }
    }
}

/// A call under way.
struct FreeWait<'a> {
    keeper: &'a Keeper,
    started: Instant,
    give_up: Option<Instant>,
    jitter: Jitter,
}

impl FreeWait<'_> {
    /// Waits until nobody holds this name. Returns whether somebody held it before.
    async fn until_free(&mut self, name: &LockName) -> Result<bool> {
        let store = &self.keeper.store;
        let (mut subscription, mut is_subscribed, mut was_busy) = (None, false, false);
        loop {
            self.keeper.ensure_open()?;
            let polled = match store.inspect(name, 1, None).await {
                Err(error) if !error.kind().is_outage() => return Err(error.into()),
                polled => polled,
            };
            if polled.as_ref().is_ok_and(|status| status.is_free()) {
                return Ok(was_busy);
            }
            was_busy = true;
            if self.give_up.is_some_and(|limit| store.now() >= limit) {
                return Err(match polled {
                    Ok(status) => self.timeout(name, *status),
                    Err(error) => error.into(),
                });
            }
            if polled.is_ok() && !is_subscribed {
                // A release before the subscription sent its message to nobody here, so the call
                // polls once more.
                is_subscribed = true;
                subscription = store.inner.subscribe(name).await.ok().flatten();
                continue;
            }
            self.pause(&mut subscription, polled.ok().as_deref()).await;
        }
    }

    /// Waits until a message comes, the lease may end, or it is time to poll anyway.
    async fn pause(
        &mut self,
        subscription: &mut Option<Box<dyn Subscription>>,
        status: Option<&Status>,
    ) {
        let clock = &self.keeper.store.clock;
        let usual = self.jitter.around(POLL_INTERVAL);
        let left = status.and_then(|status| status.holders.first()).map(|holder| holder.ttl_left);
        let pause = left.map_or(usual, |left| left.clamp(LEAST_PAUSE, usual));
        let until = clock.now() + pause;
        let until = self.give_up.map_or(until, |limit| limit.min(until));
        let message = async {
            match subscription {
                Some(subscription) => subscription.next().await,
                None => pending().await,
            }
        };
        match select(std::pin::pin!(message), clock.sleep_until(until)).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    fn timeout(&self, name: &LockName, status: Status) -> Error {
        let waited = self.keeper.store.now().saturating_since(self.started);
        let holder = status.holders.into_iter().next().map(Box::new);
        Error::timeout(name.clone(), waited, holder, 0, false)
    }
}
