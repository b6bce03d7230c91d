//! The answers as JSON: spans are seconds, tokens are strings, times are milliseconds since 1970.

use leasehold::admin::HoldState;
use leasehold::{FencingToken, LockName};
use serde::Serialize;

use super::App;
use crate::commands::status_view::StatusView;
use crate::watch::{Availability, Deadlock, History, Row, Totals, Wait, Who};

/// The most holders and the most waiters of a lock in a list. A request for one lock returns all.
/// It is also the most deadlocks, because an operator ends one at a time.
pub(super) const MOST: usize = 20;

/// The wait from which on a lock is marked: a minute.
const LONG_WAIT_MS: u64 = 60_000;

/// The totals, the first deadlocks, and whether the store answers.
#[derive(Serialize)]
pub(super) struct StateView {
    now_ms: u64,
    store: StoreView,
    #[serde(flatten)]
    totals: Totals,
    /// A name whose record cannot be read, and the reason.
    first_unreadable: Option<String>,
    /// Whether everything in the store was looked at once. Before that, a lock that is not listed
    /// may be held.
    is_whole: bool,
    /// How many keys were passed so far. None once everything was looked at.
    keys_so_far: Option<u64>,
    /// The number of probable deadlocks.
    deadlocks: usize,
    /// The first deadlocks.
    first_deadlocks: Vec<DeadlockView>,
    longest_wait_seconds: Option<f64>,
    /// The name that has been awaited for the longest time.
    longest_awaited: Option<String>,
    /// The number of names that have been awaited for more than a minute.
    stuck: usize,
    longest_hold_seconds: Option<f64>,
    /// The age of the oldest look at a lock.
    oldest_look_seconds: Option<f64>,
    /// How long the last walk over all keys took; none before the first walk has ended.
    scan_seconds: Option<f64>,
    /// Whether there are more names than are remembered.
    is_cut: bool,
    dangers: Option<usize>,
    warnings: Option<usize>,
    may_revoke: bool,
    version: &'static str,
}

/// The store.
#[derive(Serialize)]
struct StoreView {
    /// The store URL, without its password.
    url: String,
    #[serde(flatten)]
    availability: Availability,
}

impl StateView {
    pub(super) fn of(app: &App) -> Self {
        let now_ms = app.watcher.time.now_ms();
        let picture = app.watcher.picture();
        let (totals, deadlocks) = (picture.totals(), picture.deadlocks());
        let since = |at_ms: Option<u64>| at_ms.map(|at_ms| seconds(now_ms.saturating_sub(at_ms)));
        let report = app.report.borrow().clone();
        let store = StoreView { url: app.url.to_string(), availability: picture.store.clone() };
        let awaited = picture.rows().filter_map(|(name, row)| Some((row.waited_since_ms()?, name)));
        let first_unreadable = picture
            .rows()
            .find_map(|(name, row)| Some(format!("{name}: {}", row.unreadable.as_ref()?)));
        Self {
            now_ms,
            store,
            totals,
            first_unreadable,
            longest_awaited: awaited.min().map(|(_, name)| name.to_string()),
            stuck: picture.rows().filter(|(_, row)| waits_long(row, now_ms)).count(),
            is_whole: picture.is_whole,
            keys_so_far: picture.keys_so_far(),
            deadlocks: deadlocks.len(),
            first_deadlocks: deadlocks.iter().take(MOST).map(DeadlockView::new).collect(),
            longest_wait_seconds: since(totals.waited_since_ms),
            longest_hold_seconds: since(totals.held_since_ms),
            oldest_look_seconds: since(totals.oldest_look_ms),
            scan_seconds: picture.round_took_ms.map(seconds),
            is_cut: picture.is_cut,
            dangers: report.as_ref().map(|report| report.dangers),
            warnings: report.as_ref().map(|report| report.warnings),
            may_revoke: app.access.allows_revoke,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// A probable deadlock: each client waits for the next, and the last for the first.
#[derive(Serialize)]
struct DeadlockView {
    words: String,
    waits: Vec<WaitView>,
}

/// One client in a deadlock, and the client for which it waits.
#[derive(Serialize)]
struct WaitView {
    /// The awaited name.
    name: String,
    waiter: Who,
    waited_seconds: f64,
    /// The client for which this one waits.
    behind: Who,
    /// The token with which that client holds the lock, if it is known.
    token: Option<FencingToken>,
}

impl DeadlockView {
    fn new(deadlock: &Deadlock<'_>) -> Self {
        Self { words: deadlock.to_string(), waits: deadlock.0.iter().map(WaitView::new).collect() }
    }
}

impl WaitView {
    fn new(&Wait { name, waiter, holder, .. }: &Wait<'_>) -> Self {
        Self {
            name: name.to_string(),
            waiter: Who::new(waiter.id, &waiter.info),
            waited_seconds: waiter.waited.as_secs_f64(),
            behind: Who::new(holder.id, &holder.info),
            token: holder.token,
        }
    }
}

/// A lock as `show --json` prints it, with what is known only by watching.
#[derive(Serialize)]
pub(super) struct LockView<'a> {
    #[serde(flatten)]
    lock: StatusView<'a>,
    /// The number of holders. In a list of locks, only the first holders are listed.
    holding: usize,
    /// When the lock was looked at.
    seen_ms: u64,
    age_seconds: f64,
    held_since_ms: Option<u64>,
    waited_since_ms: Option<u64>,
    /// Reasons for an operator to look at this lock.
    marks: Vec<&'static str>,
}

impl<'a> LockView<'a> {
    /// The view with at most `most` holders and waiters.
    pub(super) fn new(
        (name, row): (&'a LockName, &'a Row),
        most: usize,
        deadlocks: &[Deadlock<'_>],
        now_ms: u64,
    ) -> Self {
        let unreadable = row.unreadable.as_ref();
        Self {
            lock: StatusView::new(name, &row.status, unreadable, row.seen_ms).first(most),
            holding: row.status.holders.len(),
            seen_ms: row.seen_ms,
            age_seconds: row.age(now_ms).as_secs_f64(),
            held_since_ms: row.held_since_ms(),
            waited_since_ms: row.waited_since_ms(),
            marks: marks(row, deadlocks.iter().any(|it| it.has(name)), now_ms),
        }
    }
}

/// Whether somebody has waited for more than a minute.
fn waits_long(row: &Row, now_ms: u64) -> bool {
    row.waited_since_ms().is_some_and(|since| since + LONG_WAIT_MS <= now_ms)
}

/// Reasons for an operator to look at this lock.
fn marks(row: &Row, is_in_deadlock: bool, now_ms: u64) -> Vec<&'static str> {
    let is_revoked = row.status.holders.iter().any(|holder| holder.state == HoldState::Revoked);
    let has_no_end = row.status.foreign.as_ref().is_some_and(|other| other.ttl_left.is_none());
    let all = [
        (is_in_deadlock, "deadlock"),
        (waits_long(row, now_ms), "long_wait"),
        (is_revoked, "asked_to_stop"),
        (has_no_end, "no_end"),
        (row.unreadable.is_some(), "unreadable"),
    ];
    all.into_iter().filter_map(|(is_so, mark)| is_so.then_some(mark)).collect()
}

/// A page of the list of locks.
#[derive(Serialize)]
pub(super) struct PageView<'a> {
    pub(super) locks: Vec<LockView<'a>>,
    /// The cursor of the next page; none if this is the last.
    pub(super) next: Option<String>,
}

/// What the page shows.
#[derive(Serialize)]
pub(super) struct ScreenView<'a> {
    pub(super) state: StateView,
    /// The number of locks that are held or awaited.
    pub(super) total: usize,
    /// The number of those that have the text of the filter.
    pub(super) matching: usize,
    /// The place of the first row among them.
    pub(super) from: usize,
    pub(super) rows: Vec<RowView<'a>>,
}

/// A row of the page: a lock, who held it in the last minutes, and how many waited.
#[derive(Serialize)]
pub(super) struct RowView<'a> {
    #[serde(flatten)]
    pub(super) lock: LockView<'a>,
    #[serde(flatten)]
    pub(super) history: &'a History,
}

/// A span in seconds.
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
