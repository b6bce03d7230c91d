//! Waiting at a store without queues: a caller polls when a release is published, and now and then
//! without a message.
//!
//! The callers of one client that wait for one name take turns in its seat. Only the caller in the
//! seat subscribes and polls. So a name costs one subscription, and a release wakes one caller of
//! each process instead of all.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, FutureExt as _, pending, select};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::ASK_INTERVAL;
use leasehold_core::{Instant, LockName};
use tokio::sync::OwnedMutexGuard;

use crate::keeper::handoff::Pulse;
use crate::keeper::state::{Keeper, LocalQueues, Seat, SharedSubscription};
use crate::store::Subscription;
use crate::store::clocked::ClockedStore;

/// How long an empty seat is kept with its subscription: 2 s. A caller that takes turns with others
/// comes back immediately, and a new connection for each turn would cost more than the turn.
const IDLE: Duration = Duration::from_secs(2);

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

impl Keeper {
    /// Waits for the seat until all callers before this one have had a turn.
    pub(crate) async fn poller(&self, name: &LockName, jitter: Jitter) -> Poller {
        let store = &self.store;
        let (mut subscription, pulse) = loop {
            let (seat, pulse) = {
                let now = store.now();
                let mut table = self.table();
                self.wake_by(&mut table, now + IDLE);
                let seat = table.queues.seat(name, now);
                (Arc::clone(&seat.subscription), Arc::clone(&seat.pulse))
            };
            if let Some(subscription) = wait_for(store, seat, &pulse).await {
                break (subscription, pulse);
            }
        };
        pulse.beat(store.now());
        let can = store.inner.capabilities();
        if can.publishes_releases && subscription.is_none() {
            // Without messages the caller finds out by polling.
            let subscribing = store.inner.subscribe(name);
            *subscription = pulse.of(&*store.clock, subscribing).await.ok().flatten();
        }
        let spread = can.splits_votes.then_some(SPREAD.0);
        let releases_are_published = can.publishes_releases;
        let mut poller = Poller { subscription, pulse, releases_are_published, spread, jitter };
        poller.skip_published();
        poller
    }
}

/// Waits for a seat. Returns `None` if the caller that has it is not polled any more.
async fn wait_for(
    store: &ClockedStore,
    seat: SharedSubscription,
    pulse: &Pulse,
) -> Option<OwnedMutexGuard<Option<Box<dyn Subscription>>>> {
    let mut seat = pin!(seat.lock_owned());
    loop {
        let until = pulse.until();
        if until <= store.now() {
            return seat.now_or_never();
        }
        match select(seat.as_mut(), store.clock.sleep_until(until)).await {
            Either::Left((subscription, _)) => return Some(subscription),
            Either::Right(_) => {}
        }
    }
}

impl Seat {
    fn new(now: Instant) -> Self {
        Self { subscription: Arc::default(), pulse: Pulse::of_seat(now), used: now }
    }
}

impl LocalQueues {
    /// The seat for a name. A caller that is not polled any more keeps its seat to itself: the
    /// others get a new one.
    fn seat(&mut self, name: &LockName, now: Instant) -> &Seat {
        let queue = self.by_name.entry(name.clone()).or_default();
        if queue.seat.is_none() {
            self.seats.insert(now + IDLE, name.clone());
        }
        let seat = queue.seat.get_or_insert_with(|| Seat::new(now));
        if seat.pulse.until() <= now && seat.subscription.try_lock().is_err() {
            *seat = Seat::new(now);
        }
        seat.used = now;
        seat
    }

    /// Takes out the seats that nobody uses, because messages that nobody reads would pile up.
    pub(in crate::keeper) fn take_empty_seats(&mut self, now: Instant) -> Vec<Seat> {
        let mut empty = Vec::new();
        for name in self.seats.take_due(now) {
            let Some(queue) = self.by_name.get_mut(&name) else { continue };
            let Some(seat) = &mut queue.seat else { continue };
            if Arc::strong_count(&seat.subscription) > 1 {
                seat.used = now;
            }
            if now.saturating_since(seat.used) < IDLE {
                self.seats.insert(seat.used + IDLE, name);
                continue;
            }
            empty.extend(queue.seat.take());
            if queue.is_empty() {
                self.by_name.remove(&name);
            }
        }
        empty
    }
}

/// The caller that has a seat.
pub(crate) struct Poller {
    subscription: OwnedMutexGuard<Option<Box<dyn Subscription>>>,
    pulse: Arc<Pulse>,
    /// All holders publish their release.
    releases_are_published: bool,
    /// The span within which all pollers ask after a message, if they do not ask immediately.
    spread: Option<Duration>,
    jitter: Jitter,
}

impl Poller {
    /// The pulse of the caller, which has the seat while it is polled.
    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// Waits for as long as other clients pause, before a client that has just had its turn polls
    /// again.
    pub(crate) async fn make_way(store: &ClockedStore, jitter: &mut Jitter) {
        let (least, most) = match store.inner.capabilities().publishes_releases {
            true => (Duration::ZERO, SPREAD.0),
            false => PAUSE,
        };
        let pause = jitter.between(least, most);
        store.clock.sleep_until(store.now() + pause).await;
    }

    /// Waits for a message, or until it is time to poll anyway; `took` is how long the last poll
    /// took.
    pub(crate) async fn wait(
        &mut self,
        store: &ClockedStore,
        retry_after: Duration,
        took: Duration,
    ) {
        let clock = &store.clock;
        self.pulse.beat(clock.now());
        let (low, high) = (Duration::from_millis(1), Duration::from_millis(5));
        let freed = retry_after + self.jitter.between(low, high);
        let (least, most) = match self.releases_are_published {
            true => (ASK_INTERVAL * 4 / 5, ASK_INTERVAL),
            false => PAUSE,
        };
        let pause = freed.min(self.jitter.between(least, most));
        let message = async {
            match &mut *self.subscription {
                Some(subscription) => subscription.next().await,
                None => pending().await,
            }
        };
        let sleeping = clock.sleep_until(clock.now() + pause);
        let is_told = matches!(select(pin!(message), sleeping).await, Either::Left(_));
        if is_told {
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
        while let Some(subscription) = &mut *self.subscription
            && subscription.next().now_or_never().is_some()
        {}
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::model::CLAIM_WINDOW;
    use leasehold_core::{
        Answer, BoxFuture, ClientId, FakeClock, HolderInfo, LeaseOptions, Operation, StoreError,
    };

    use super::*;
    use crate::event::Observers;
    use crate::store::{Capabilities, Inbox, Memory, Store};

    /// A store whose waiters poll, and may split votes.
    #[derive(Clone, Debug)]
    struct Polled {
        memory: Memory,
        splits_votes: bool,
    }

    impl Store for Polled {
        fn capabilities(&self) -> Capabilities {
            let splits_votes = self.splits_votes;
            Capabilities { publishes_releases: true, splits_votes, ..Capabilities::default() }
        }

        fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
            self.memory.execute(operation)
        }

        fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
            self.memory.inbox(client)
        }

        fn subscribe(
            &self,
            name: &LockName,
        ) -> BoxFuture<'_, Result<Option<Box<dyn Subscription>>, StoreError>> {
            self.memory.subscribe(name)
        }
    }

    fn keeper(store: Polled, clock: FakeClock) -> Keeper {
        let (bounds, observers) = (leasehold_core::Bounds::default(), Observers::default());
        let store = ClockedStore::new(Box::new(store), Arc::new(clock), bounds, observers);
        let (who, defaults) = (HolderInfo::default(), LeaseOptions::default());
        Keeper::new(store, [1, 1], who, defaults, Duration::ZERO)
    }

    /// How many of twenty messages lead to a poll while the clock stands still, if no poll is
    /// granted.
    async fn asked_at_once(splits_votes: bool) -> usize {
        let (clock, name) = (FakeClock::new(), LockName::new("a").unwrap());
        let memory = Memory::with_clock(clock.clone());
        let keeper = keeper(Polled { memory: memory.clone(), splits_votes }, clock);
        let mut poller = keeper.poller(&name, Jitter::new(1)).await;
        let mut asked = 0;
        for _ in 0..20 {
            memory.publish(&name, "0").await.unwrap();
            let waiting = poller.wait(&keeper.store, ASK_INTERVAL, Duration::ZERO);
            asked += usize::from(waiting.now_or_never().is_some());
        }
        asked
    }

    #[tokio::test]
    async fn a_message_leads_to_a_poll_at_once_however_many_gave_nothing() {
        assert_eq!(asked_at_once(false).await, 20);
    }

    #[tokio::test]
    async fn where_votes_may_be_split_nobody_asks_in_the_moment_of_a_message() {
        assert_eq!(asked_at_once(true).await, 0);
    }

    #[tokio::test]
    async fn a_caller_that_has_the_seat_and_is_not_polled_costs_the_next_caller_two_seconds() {
        let (clock, name) = (FakeClock::new(), LockName::new("a").unwrap());
        let memory = Memory::with_clock(clock.clone());
        let keeper = keeper(Polled { memory, splits_votes: false }, clock.clone());
        let first = keeper.poller(&name, Jitter::new(1)).await;
        let mut second = pin!(keeper.poller(&name, Jitter::new(2)));
        for _ in 0..3 {
            assert!(second.as_mut().now_or_never().is_none(), "the first is polled");
            clock.advance(CLAIM_WINDOW / 2);
            first.pulse.beat(keeper.store.now());
        }
        assert!(second.as_mut().now_or_never().is_none());
        clock.advance(CLAIM_WINDOW);
        let second = second.now_or_never().expect("it gets another seat");
        let mut third = pin!(keeper.poller(&name, Jitter::new(3)));
        assert!(third.as_mut().now_or_never().is_none(), "it waits for the second");
        drop(second);
        assert!(third.now_or_never().is_some());
    }
}
