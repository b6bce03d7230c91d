//! Waiting where there is no queue: ask again when somebody lets go, and now and then anyway.
//!
//! The callers of one process that wait for one name stand in line, and only the first of them
//! listens and asks: so a name costs one subscription, and a release wakes one caller of each
//! process, not all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, pending, select};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::POLL_INTERVAL;
use leasehold_core::{Instant, LockName};
use tokio::sync::OwnedMutexGuard;

use crate::background;
use crate::contact::Contact;
use crate::store::Subscription;

/// How long a line is kept that nobody stands in: 2 s. Who takes turns with others comes back at
/// once, and opening a connection for each turn would cost more than the turn.
const IDLE: Duration = Duration::from_secs(2);

/// After news all who wait ask within 2 ms, or within twice the time that the last question took:
/// each at a moment of its own, so that they do not split the votes of a quorum. Twice as long each
/// time that this was in vain, up to 200 ms.
const SPREAD: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

/// The pause between two tries of a lock that programs share which tell nobody when they let go: 20
/// to 200 ms, drawn anew each time. In other languages they try as often (redsync every 50 to
/// 250 ms, redis-py every 100 ms, rslock up to 200 ms), and who tries less often rarely gets it.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// The first of a line holds the ear, if the store has news.
type Ear = Arc<tokio::sync::Mutex<Option<Box<dyn Subscription>>>>;

/// The lines of one client, by name.
#[derive(Default)]
pub(crate) struct Hints {
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    by_name: HashMap<LockName, Line>,
    /// Something sees to it that lines are closed.
    is_swept: bool,
}

struct Line {
    ear: Ear,
    used: Instant,
}

impl std::fmt::Debug for Hints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hints").finish_non_exhaustive()
    }
}

impl Hints {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands in line for a name until everybody before has had a turn.
    pub(crate) async fn stand(
        self: &Arc<Self>,
        contact: &Contact,
        name: &LockName,
        seed: u64,
    ) -> Standing {
        let ear = {
            let mut lines = self.lines();
            let line = lines
                .by_name
                .entry(name.clone())
                .or_insert_with(|| Line { ear: Arc::default(), used: Instant::default() });
            line.used = contact.now();
            let ear = Arc::clone(&line.ear);
            self.sweep_later(&mut lines, contact);
            ear
        };
        let mut ear = ear.lock_owned().await;
        // A record that is only what it holds is shared with programs that tell nothing.
        let is_told = contact.store.capabilities().recorded_tokens;
        if is_told && ear.is_none() {
            // Without news one finds out by asking.
            *ear = contact.store.subscribe(name).await.ok().flatten();
        }
        Standing { ear, is_told, spread: SPREAD.0, jitter: Jitter::new(seed) }
    }

    /// News that nobody reads pile up, so a line that is not used is closed.
    fn sweep_later(self: &Arc<Self>, lines: &mut Lines, contact: &Contact) {
        if std::mem::replace(&mut lines.is_swept, true) {
            return;
        }
        let (hints, clock) = (Arc::clone(self), Arc::clone(&contact.clock));
        let sweeping = async move {
            loop {
                clock.sleep_until(clock.now() + IDLE).await;
                if hints.sweep(clock.now()) {
                    return;
                }
            }
        };
        if background::spawn(&*contact.clock, Box::pin(sweeping)).is_err() {
            lines.is_swept = false;
        }
    }

    /// Closes what has not been used; true once nothing is left.
    fn sweep(&self, now: Instant) -> bool {
        let mut lines = self.lines();
        let in_use = |line: &Line| Arc::strong_count(&line.ear) > 1;
        lines.by_name.values_mut().filter(|line| in_use(line)).for_each(|line| line.used = now);
        lines.by_name.retain(|_, line| now.saturating_since(line.used) < IDLE);
        lines.is_swept = !lines.by_name.is_empty();
        !lines.is_swept
    }
}

/// The first of a line.
pub(crate) struct Standing {
    ear: OwnedMutexGuard<Option<Box<dyn Subscription>>>,
    /// Whether all who let go tell of it.
    is_told: bool,
    spread: Duration,
    jitter: Jitter,
}

impl Standing {
    /// Waits for news, or until it is time to ask anyway; `took` is how long it took to ask.
    pub(crate) async fn wait(&mut self, contact: &Contact, retry_after: Duration, took: Duration) {
        let clock = &contact.clock;
        let (low, high) = (Duration::from_millis(1), Duration::from_millis(5));
        let freed = retry_after + self.jitter.between(low, high);
        let (least, most) =
            if self.is_told { (POLL_INTERVAL * 4 / 5, POLL_INTERVAL) } else { PAUSE };
        let pause = freed.min(self.jitter.between(least, most));
        let news = async {
            match &mut *self.ear {
                Some(news) => news.next().await,
                None => pending().await,
            }
        };
        match select(std::pin::pin!(news), clock.sleep_until(clock.now() + pause)).await {
            Either::Left(_) => {
                let spread = self.spread.max(took * 2).min(SPREAD.1);
                let pause = self.jitter.between(Duration::ZERO, spread);
                clock.sleep_until(clock.now() + pause).await;
                self.spread = spread * 2;
            }
            Either::Right(_) => self.spread = SPREAD.0,
        }
    }
}
