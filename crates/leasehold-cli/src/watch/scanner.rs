//! Looks at a store again and again, and keeps a [`Picture`] of it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use leasehold::admin::{Admin, Page};
use leasehold::time::{Clock, Instant};
use leasehold::{Error, LockName};
use tokio::sync::Notify;

use super::budget::Budget;
use super::change::{Change, millis};
use super::picture::Picture;
use super::row::{Row, look};

/// How many keys a watcher looks at in a second, however many are in the store: 2000.
pub const KEYS_PER_SECOND: u32 = 2_000;

/// The most keys that a server passes in one step: 500, as in `ls`. A step takes well below a
/// millisecond of the server's time.
const MOST_KEYS: u32 = 500;

/// The most looks that are under way at the same time. A distant store needs many for a good rate.
const MOST_LOOKS: usize = 128;

/// The next walk over all keys begins at the earliest 2 seconds after the start of the last walk.
/// Names that come and go in between are not seen.
const ROUND_MS: u64 = 2_000;

/// A look counts as current for a second. So a client that asks for one name again and again costs
/// no more than a client that watches the name.
const FRESH_MS: u64 = 1_000;

/// How long due looks are gathered before they are sent: 50 ms. Names become due one by one, and a
/// request that travels alone costs a server ten times as much as one among others.
const GATHER_MS: u64 = 50;

/// A store that did not answer is asked again after half a second.
const RETRY: Duration = Duration::from_millis(500);

/// A message of a watcher.
#[derive(Clone, Debug)]
pub enum Update {
    /// A lock has changed.
    Lock(Change),
    /// The store was lost, or is back, or everything in it was looked at for the first time.
    Store,
}

/// A clock that shows milliseconds since 1970, and is not set while it runs.
#[derive(Clone, Debug)]
pub struct Timekeeper {
    clock: Arc<dyn Clock>,
    origin: Instant,
    origin_ms: u64,
}

impl Timekeeper {
    /// A timekeeper that begins at the present time of the wall clock.
    pub fn new(clock: impl Clock) -> Self {
        let (origin, origin_ms) = (clock.now(), clock.wall_us() / 1000);
        Self { clock: Arc::new(clock), origin, origin_ms }
    }

    /// The time now.
    pub fn now_ms(&self) -> u64 {
        let passed = self.clock.now().saturating_since(self.origin).as_millis();
        self.origin_ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    async fn sleep_until(&self, at_ms: u64) {
        let passed = Duration::from_millis(at_ms.saturating_sub(self.origin_ms));
        self.clock.sleep_until(self.origin + passed).await;
    }
}

/// Watches a store, and shares its picture.
#[derive(Debug)]
pub struct Watcher {
    picture: Mutex<Picture>,
    /// The watcher's clock.
    pub time: Timekeeper,
    keys_per_second: u32,
    /// The prefixes of kept names, which are watched also while they are free.
    kept: Vec<String>,
    /// Notified when somebody wants a look at a name now.
    wanted: Notify,
    /// Notified when a name was looked at.
    inspected: Notify,
}

/// The position of a walk over all keys.
#[derive(Debug, Default)]
struct Walk {
    after: Option<String>,
    /// When the next page may be read.
    due_ms: u64,
    began_ms: Option<u64>,
}

impl Watcher {
    /// A watcher that looks at this many keys a second at most, however many are in the store.
    pub fn new(keys_per_second: u32, time: Timekeeper) -> Self {
        Self::keeping(Vec::new(), keys_per_second, time)
    }

    /// The same, but it also remembers when kept names were released: those that begin with one of
    /// `kept`. At the start, it looks at each of these prefixes as a name.
    pub fn keeping(kept: Vec<String>, keys_per_second: u32, time: Timekeeper) -> Self {
        // The other half of the budget is for finding new names.
        let picture = Mutex::new(Picture::new(keys_per_second / 2, kept.clone()));
        let (wanted, inspected) = (Notify::new(), Notify::new());
        Self { picture, time, keys_per_second, kept, wanted, inspected }
    }

    /// The present picture.
    pub fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of one lock, at most a second old. Its look comes before other looks,
    /// within the budget. Waits for as long as the store is away.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves behind only that look.
    pub async fn inspect(&self, name: &LockName) -> Row {
        let fresh_ms = self.time.now_ms().saturating_sub(FRESH_MS);
        loop {
            let inspected = self.inspected.notified();
            let known = self.picture().row(name).cloned();
            if let Some(row) = known.filter(|row| row.seen_ms >= fresh_ms) {
                return row;
            }
            self.picture().want(name, self.time.now_ms());
            self.wanted.notify_one();
            inspected.await;
        }
    }

    /// Records that the store could not even be connected to. Returns true if that is new.
    pub fn note_trouble(&self, error: &Error) -> bool {
        self.picture().note_trouble(error, self.time.now_ms())
    }

    /// Watches until the future is dropped, and calls `tell` with each update.
    pub async fn run(&self, admin: &Admin, tell: impl Fn(Update)) -> Infallible {
        let mut budget = Budget::new(self.keys_per_second);
        let kept = self.kept.iter().filter_map(|prefix| LockName::new(prefix).ok());
        self.picture().found(kept.collect(), self.time.now_ms());
        let mut walk = Walk::default();
        loop {
            match self.step(admin, &mut budget, &mut walk, &tell).await {
                Ok(is_any) => {
                    let changed = self.picture().search_deadlocks(self.time.now_ms());
                    changed.into_iter().map(Update::Lock).for_each(&tell);
                    let is_news = {
                        let mut picture = self.picture();
                        (is_any && picture.note_there()) | picture.note_whole()
                    };
                    if is_news {
                        tell(Update::Store);
                    }
                    if !is_any {
                        self.rest(&mut budget, &walk).await;
                    }
                }
                Err(error) => {
                    if self.note_trouble(&error) {
                        tell(Update::Store);
                    }
                    walk = Walk::default();
                    self.time.sleep_until(self.time.now_ms() + millis(RETRY)).await;
                }
            }
        }
    }

    /// Looks at the names that are due, and continues the walk. Returns whether there was anything
    /// to do, and enough budget for it.
    async fn step(
        &self,
        admin: &Admin,
        budget: &mut Budget,
        walk: &mut Walk,
        tell: &impl Fn(Update),
    ) -> Result<bool, Error> {
        if !budget.is_enough(self.time.now_ms()) {
            return Ok(false);
        }
        let mut is_any = self.inspect_due(admin, budget, walk, tell).await?;
        while self.walk(admin, budget, walk).await? {
            is_any = true;
        }
        Ok(is_any)
    }

    /// Looks at the names that are due. Returns whether there were any.
    async fn inspect_due(
        &self,
        admin: &Admin,
        budget: &mut Budget,
        walk: &Walk,
        tell: &impl Fn(Update),
    ) -> Result<bool, Error> {
        let now_ms = self.time.now_ms();
        let left = budget.left(now_ms);
        let allowed = if walk.due_ms <= now_ms { left / 2 } else { left };
        let names = self.picture().take_due(now_ms, allowed as usize);
        for some in names.chunks(MOST_LOOKS) {
            budget.spend(self.time.now_ms(), u32::try_from(some.len()).unwrap_or(u32::MAX));
            let asked = some.iter().map(async |name| (admin.inspect(name).await, name));
            let mut asked: FuturesUnordered<_> = asked.collect();
            while let Some((outcome, name)) = asked.next().await {
                let change = self.picture().saw(name, look(outcome)?, self.time.now_ms());
                self.inspected.notify_waiters();
                change.map(Update::Lock).into_iter().for_each(tell);
            }
        }
        Ok(!names.is_empty())
    }

    /// Reads a page of keys, if one is due and enough budget is left. Returns whether it read one.
    async fn walk(
        &self,
        admin: &Admin,
        budget: &mut Budget,
        walk: &mut Walk,
    ) -> Result<bool, Error> {
        let now_ms = self.time.now_ms();
        // A page costs 1 for each key, and 1 more for each key that is read.
        let keys = (budget.left(now_ms) / 2).min(MOST_KEYS);
        if walk.due_ms > now_ms || keys < budget.least() {
            return Ok(false);
        }
        if walk.began_ms.is_none() {
            walk.began_ms = Some(now_ms);
            self.picture().round_begins(now_ms);
        }
        let Page { names, next, scanned, .. } = admin.page("", walk.after.as_deref(), keys).await?;
        budget.spend(now_ms, scanned);
        let now_ms = self.time.now_ms();
        let mut picture = self.picture();
        picture.found(names, now_ms);
        picture.passed(scanned.min(keys));
        if next.is_none() {
            picture.round_ends(now_ms);
            let began_ms = walk.began_ms.take().unwrap_or(now_ms);
            walk.due_ms = began_ms + ROUND_MS;
        }
        walk.after = next;
        Ok(true)
    }

    /// Waits until a look is due and the budget allows it, for at least [`GATHER_MS`]. If somebody
    /// wants a look at a name now, waits only until the budget allows it.
    async fn rest(&self, budget: &mut Budget, walk: &Walk) {
        let now_ms = self.time.now_ms();
        let due_ms = self.picture().next_due_ms().unwrap_or(u64::MAX).min(walk.due_ms);
        let may_ms = budget.refilled_ms(now_ms);
        let until = self.time.sleep_until(due_ms.max(may_ms).max(now_ms + GATHER_MS));
        let wanted = std::pin::pin!(self.wanted.notified());
        let is_wanted = matches!(select(std::pin::pin!(until), wanted).await, Either::Right(_));
        if is_wanted && may_ms > now_ms {
            self.time.sleep_until(may_ms).await;
        }
    }
}

#[cfg(test)]
mod tests;
