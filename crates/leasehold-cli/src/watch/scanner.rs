//! Looks at a store again and again, and keeps a [`Picture`] of it.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use leasehold::Error;
use leasehold::admin::{Admin, Page};
use leasehold::time::{Clock, Instant};

use super::picture::Picture;
use super::row::look;
use crate::moment::millis;

/// The most keys that a server passes in one step: 500, as in `ls`. A step takes well below a
/// millisecond of the server's time.
const MOST_KEYS: u32 = 500;

/// The most looks that are under way at the same time. A distant store needs many for a good rate.
const MOST_LOOKS: usize = 128;

/// The next walk over all keys begins at the earliest 2 seconds after the start of the last walk.
/// Names that come and go in between are not seen.
const ROUND_MS: u64 = 2_000;

/// How long due looks are gathered before they are sent: 50 ms. Names become due one by one, and a
/// request that travels alone costs a server ten times as much as one among others.
const GATHER_MS: u64 = 50;

/// A store that did not answer is asked again after half a second.
const RETRY: Duration = Duration::from_millis(500);

/// A clock that shows milliseconds since 1970, and is not set while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Timekeeper {
    clock: Arc<dyn Clock>,
    origin: Instant,
    origin_ms: u64,
}

impl Timekeeper {
    /// A timekeeper that begins at the present time of the wall clock.
    pub(crate) fn new(clock: impl Clock) -> Self {
        let (origin, origin_ms) = (clock.now(), clock.wall_us() / 1000);
        Self { clock: Arc::new(clock), origin, origin_ms }
    }

    /// The time now.
    pub(crate) fn now_ms(&self) -> u64 {
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
pub(crate) struct Watcher {
    picture: Mutex<Picture>,
    /// The watcher's clock.
    pub(crate) time: Timekeeper,
}

/// The looks at a store, and the position of the walk over all its keys.
struct Scan<'a> {
    watcher: &'a Watcher,
    admin: &'a Admin,
    budget: Budget,
    after: Option<String>,
    /// When the next page may be read.
    due_ms: u64,
    began_ms: u64,
}

impl Watcher {
    /// A watcher that also remembers when kept names were released: those that begin with one of
    /// `kept`. At the start, it looks at each of these prefixes as a name.
    pub(crate) fn new(kept: Vec<String>, time: Timekeeper) -> Self {
        Self { picture: Mutex::new(Picture::new(kept)), time }
    }

    /// The present picture.
    pub(crate) fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the store cannot be looked at. Returns whether that is new.
    pub(crate) fn note_trouble(&self, error: &Error) -> bool {
        self.picture().note_trouble(error, self.time.now_ms())
    }

    /// Watches until the future is dropped. Calls `tell` when trouble begins and ends.
    pub(crate) async fn run(&self, admin: &Admin, tell: impl Fn(fmt::Arguments<'_>)) -> Infallible {
        let budget = Budget::new(self.time.now_ms());
        let mut scan = Scan { watcher: self, admin, budget, after: None, due_ms: 0, began_ms: 0 };
        self.picture().find_kept(self.time.now_ms());
        loop {
            match scan.step().await {
                Ok(is_any) => {
                    self.picture().note_whole();
                    if is_any && self.picture().note_there() {
                        tell(format_args!("the store answers again"));
                    }
                    if !is_any {
                        scan.rest().await;
                    }
                }
                Err(error) => {
                    if self.note_trouble(&error) {
                        tell(format_args!("waits for the store: {error}"));
                    }
                    (scan.after, scan.due_ms) = (None, 0);
                    self.time.sleep_until(self.time.now_ms() + millis(RETRY)).await;
                }
            }
        }
    }
}

impl Scan<'_> {
    fn now_ms(&self) -> u64 {
        self.watcher.time.now_ms()
    }

    /// Looks at the names that are due, and continues the walk. Returns whether there was anything
    /// to do, and enough budget for it.
    async fn step(&mut self) -> Result<bool, Error> {
        if !self.budget.is_enough(self.now_ms()) {
            return Ok(false);
        }
        let mut is_any = self.inspect_due().await?;
        while self.walk().await? {
            is_any = true;
        }
        Ok(is_any)
    }

    /// Looks at the names that are due. Returns whether there were any.
    async fn inspect_due(&mut self) -> Result<bool, Error> {
        let now_ms = self.now_ms();
        let left = self.budget.left(now_ms);
        // The other half of the budget is for finding new names.
        let allowed = if self.due_ms <= now_ms { left / 2 } else { left };
        let names = self.watcher.picture().take_due(now_ms, allowed as usize);
        for some in names.chunks(MOST_LOOKS) {
            self.budget.spend(self.now_ms(), u32::try_from(some.len()).unwrap_or(u32::MAX));
            let asked = some.iter().map(async |name| (self.admin.inspect(name).await, name));
            let mut asked: FuturesUnordered<_> = asked.collect();
            while let Some((outcome, name)) = asked.next().await {
                self.watcher.picture().saw(name, look(outcome)?, self.now_ms());
            }
        }
        Ok(!names.is_empty())
    }

    /// Reads a page of keys, if one is due and enough budget is left. Returns whether it read one.
    async fn walk(&mut self) -> Result<bool, Error> {
        let now_ms = self.now_ms();
        // A page costs 1 for each key, and 1 more for each key that is read.
        let keys = (self.budget.left(now_ms) / 2).min(MOST_KEYS);
        if self.due_ms > now_ms || keys < LEAST {
            return Ok(false);
        }
        if self.after.is_none() {
            self.began_ms = now_ms;
            self.watcher.picture().round_begins(now_ms);
        }
        let page = self.admin.page("", self.after.as_deref(), keys).await?;
        let Page { names, next, scanned, .. } = page;
        self.budget.spend(now_ms, scanned);
        let now_ms = self.now_ms();
        let mut picture = self.watcher.picture();
        picture.found(names, now_ms);
        picture.passed(scanned.min(keys));
        if next.is_none() {
            picture.round_ends(now_ms);
            self.due_ms = self.began_ms + ROUND_MS;
        }
        self.after = next;
        Ok(true)
    }

    /// Waits until a look is due and the budget allows it, for at least [`GATHER_MS`].
    async fn rest(&mut self) {
        let now_ms = self.now_ms();
        let due_ms = self.watcher.picture().next_due_ms().min(self.due_ms);
        let may_ms = self.budget.refilled_ms(now_ms);
        self.watcher.time.sleep_until(due_ms.max(may_ms).max(now_ms + GATHER_MS)).await;
    }
}

/// How many keys a watcher looks at in a second: 2000.
const KEYS_PER_SECOND: u32 = 2_000;

/// The most keys that are asked for at once. It is a fifth of the budget, so that a server is asked
/// for few keys at a time.
const MOST: f64 = KEYS_PER_SECOND as f64 / 5.0;

/// How many keys come back in a millisecond. Together with [`MOST`], a second has no more than
/// [`KEYS_PER_SECOND`].
const PER_MS: f64 = (KEYS_PER_SECOND as f64 - MOST) / 1_000.0;

/// Enough to begin: half of the most. If each key were spent as soon as it came back, each request
/// would be for only a few keys. Then the requests themselves would cost a server more than the
/// look at the keys.
const ENOUGH: f64 = MOST / 2.0;

/// The fewest keys that are worth a request, if more can be asked for later.
const LEAST: u32 = 50;

/// How many keys may be looked at, and the time for which that was computed.
#[derive(Debug)]
struct Budget {
    left: f64,
    at_ms: u64,
}

impl Budget {
    fn new(now_ms: u64) -> Self {
        Self { left: MOST, at_ms: now_ms }
    }

    /// How many keys may be looked at now.
    fn left(&mut self, now_ms: u64) -> u32 {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        (self.left, self.at_ms) = ((self.left + passed_ms as f64 * PER_MS).min(MOST), now_ms);
        self.left.max(0.0) as u32
    }

    /// Whether enough is left to begin.
    fn is_enough(&mut self, now_ms: u64) -> bool {
        f64::from(self.left(now_ms)) >= ENOUGH
    }

    /// Records how many keys were looked at.
    fn spend(&mut self, now_ms: u64, keys: u32) {
        self.left(now_ms);
        self.left -= f64::from(keys);
    }

    /// The time at which enough of the budget is back to begin.
    fn refilled_ms(&mut self, now_ms: u64) -> u64 {
        self.left(now_ms);
        let lacking = (ENOUGH - self.left).max(0.0);
        now_ms + (lacking / PER_MS).ceil() as u64
    }
}

#[cfg(test)]
mod tests;
