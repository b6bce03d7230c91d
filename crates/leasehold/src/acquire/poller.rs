//! Waiting at a store without queues: a caller polls when a release is published, and now and then
//! without a message.
//!
//! Of the callers of one client that wait for one name, only the first at the gate subscribes and
//! polls. So a name costs one subscription, and a release wakes one caller of each process instead
//! of all.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{FutureExt as _, pending};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::ASK_INTERVAL;
use tokio::sync::OwnedMutexGuard;

use super::request::Asked;
use crate::clock::within;
use crate::keeper::Front;
use crate::store::Subscription;
use crate::store::clocked::ClockedStore;

/// If votes may be split, each poller asks at a random moment within a span after a message. The
/// span is 2 ms, or twice the time of the last poll if that is longer. It doubles each time that no
/// poll was granted, up to 200 ms. At other stores, one of the clients that ask immediately gets
/// the lock. So there all clients ask immediately, like other programs that share the lock: a
/// client that asks later rarely gets it.
const SPREAD: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

/// The pause between two polls of a lock that is shared with programs which publish no release: 20
/// to 200 ms, drawn anew each time. Other libraries try about as often (redsync every 50 to 250 ms,
/// redis-py every 100 ms, rslock up to 200 ms). A client that tries less often rarely gets the
/// lock.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// The caller that polls for its gate.
pub(super) struct Poller {
    subscription: Option<OwnedMutexGuard<Option<Box<dyn Subscription>>>>,
    /// All holders publish their release.
    releases_are_published: bool,
    /// The span within which all pollers ask after a message, if they do not ask immediately.
    spread: Option<Duration>,
    jitter: Jitter,
}

impl Poller {
    /// Subscribes, unless the caller before has done so.
    pub(super) async fn new(asked: &Asked<'_>, front: Option<&Front>) -> Self {
        let (store, can) = (&asked.keeper.store, asked.keeper.store.inner.capabilities());
        let mut subscription = match front {
            Some(front) if can.publishes_releases => Some(front.subscription().await),
            Some(_) | None => None,
        };
        if let Some(empty) = subscription.as_deref_mut().filter(|subscribed| subscribed.is_none()) {
            // Without messages the caller finds out by polling.
            *empty = store.inner.subscribe(asked.name).await.ok().flatten();
        }
        let spread = can.splits_votes.then_some(SPREAD.0);
        let (releases_are_published, jitter) = (can.publishes_releases, asked.keeper.jitter());
        let mut poller = Self { subscription, releases_are_published, spread, jitter };
        poller.skip_published();
        poller
    }

    /// Waits for as long as other clients pause, before a client that has just had its turn polls
    /// again. A client that asks right after its release would always be the first.
    pub(super) async fn make_way(store: &ClockedStore, jitter: &mut Jitter) {
        let (least, most) = match store.inner.capabilities().publishes_releases {
            true => (Duration::ZERO, SPREAD.0),
            false => PAUSE,
        };
        let pause = jitter.between(least, most);
        store.clock.sleep_until(store.now() + pause).await;
    }

    /// Waits for a message, or until it is time to poll anyway; `took` is how long the last poll
    /// took.
    pub(super) async fn wait(
        &mut self,
        store: &ClockedStore,
        retry_after: Duration,
        took: Duration,
    ) {
        let clock = &store.clock;
        let (low, high) = (Duration::from_millis(1), Duration::from_millis(5));
        let freed = retry_after + self.jitter.between(low, high);
        let (least, most) = match self.releases_are_published {
            true => (ASK_INTERVAL * 4 / 5, ASK_INTERVAL),
            false => PAUSE,
        };
        let pause = freed.min(self.jitter.between(least, most));
        let message = async {
            match self.subscription.as_deref_mut() {
                Some(Some(subscription)) => subscription.next().await,
                Some(None) | None => pending().await,
            }
        };
        if within(&**clock, clock.now() + pause, pin!(message)).await.is_some() {
            self.spread_out(store, took).await;
        } else {
            self.spread = self.spread.and(Some(SPREAD.0));
        }
        self.skip_published();
    }

    /// If votes may be split, waits for a random part of the span in which all ask.
    async fn spread_out(&mut self, store: &ClockedStore, took: Duration) {
        if let Some(spread) = &mut self.spread {
            let most = (*spread).max(took * 2).min(SPREAD.1);
            let pause = self.jitter.between(Duration::ZERO, most);
            *spread = most * 2;
            store.clock.sleep_until(store.clock.now() + pause).await;
        }
    }

    /// Skips the messages that were published up to now: the poll that follows sees all changes
    /// that they report. Otherwise each of several messages, of earlier turns or of one release,
    /// would cost a useless poll.
    fn skip_published(&mut self) {
        while let Some(Some(subscription)) = self.subscription.as_deref_mut()
            && subscription.next().now_or_never().is_some()
        {}
    }
}
