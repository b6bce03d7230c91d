//! The known state of all locks of a store, and the choice of the lock to look at next.
//!
//! Of the names whose look is due, the earliest come first. If there are too many for the budget,
//! each is looked at less often, and none is left out.

use std::collections::BTreeMap;
use std::mem;

use leasehold::error::StoreErrorKind;
use leasehold::{Error, LockName};
use serde::{Deserialize, Serialize};

use super::deadlocks::{Deadlock, deadlocks};
use super::history::SPAN_MS;
use super::row::{HELD_MS, Look, Row};

/// A kept lock that is free is looked at every 30 seconds, to notice a job that holds it only
/// briefly between two walks.
const KEPT_MS: u64 = 30_000;

/// The most names that are remembered. Further names are not counted, and the page says so.
const MOST_ROWS: usize = 50_000;

/// Whether the store answers. At first, it has not been asked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Availability {
    pub(crate) is_there: bool,
    /// The store refuses to let this user look.
    pub(crate) is_denied: bool,
    /// Since when the store has not answered, in milliseconds since 1970.
    pub(crate) away_since_ms: Option<u64>,
    /// Why the store cannot be looked at: the failure, or the missing right.
    pub(crate) why: Option<String>,
}

/// Totals over all locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Totals {
    /// Names that somebody holds.
    pub(crate) held: usize,
    /// Names that somebody waits for.
    pub(crate) awaited: usize,
    /// The number of waiters.
    pub(crate) waiting: u64,
    /// Names whose record cannot be read. They are not in the other totals.
    pub(crate) unreadable: usize,
    /// When the longest present wait began.
    #[serde(skip)]
    pub(crate) waited_since_ms: Option<u64>,
    /// When the oldest hold began.
    #[serde(skip)]
    pub(crate) held_since_ms: Option<u64>,
    /// The oldest of the times at which the rows were last looked at.
    #[serde(skip)]
    pub(crate) oldest_look_ms: Option<u64>,
}

/// The locks that a view shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Only names with this prefix.
    pub(crate) prefix: String,
    /// Only locks with this text in the name, or in the host or label of a process.
    pub(crate) text: String,
    /// Also locks that have become free a moment ago.
    pub(crate) has_free: bool,
    /// The order.
    pub(crate) order: Order,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The longest wait first, then the oldest hold: what may be stuck.
    #[default]
    Longest,
    /// The longest queue first.
    Waiting,
    /// The oldest hold first.
    Held,
    /// By name.
    Name,
}

impl Order {
    /// The next order; the first one follows the last.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Longest => Self::Waiting,
            Self::Waiting => Self::Held,
            Self::Held => Self::Name,
            Self::Name => Self::Longest,
        }
    }

    /// The place of a lock in this order: the lowest comes first. A lock that nobody holds, or for
    /// which nobody waits, comes behind the others.
    fn place<'a>(self, (name, row): &(&'a LockName, &Row)) -> (u64, u64, u64, &'a LockName) {
        let since = |at_ms: Option<u64>| at_ms.unwrap_or(u64::MAX);
        let (waited, held) = (since(row.waited_since_ms()), since(row.held_since_ms()));
        match self {
            Self::Longest => (0, waited, held, name),
            Self::Waiting => (u64::MAX - u64::from(row.status.waiting), waited, held, name),
            Self::Held => (held, waited, held, name),
            Self::Name => (0, 0, 0, name),
        }
    }
}

/// The picture of a store.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    rows: BTreeMap<LockName, Row>,
    /// Whether the store answers.
    pub(crate) store: Availability,
    round_began_ms: Option<u64>,
    /// How long the last walk over all keys took; none before the first walk has ended.
    pub(crate) round_took_ms: Option<u64>,
    /// How many walks over all keys of the store have ended.
    pub(crate) walks: u64,
    /// How many keys the first walk has passed.
    keys: u64,
    /// Whether every key of the store was passed once, and each name that was found was looked at.
    /// Before that, there may be names that were not seen.
    pub(crate) is_whole: bool,
    /// Whether there are more names than are remembered.
    pub(crate) is_cut: bool,
    /// The prefixes of kept names, which are watched also while they are free.
    pub(crate) kept: Vec<String>,
}

impl Picture {
    /// A picture of a store that was not looked at yet. Names that begin with one of `kept` stay
    /// remembered after they were released.
    pub(super) fn new(kept: Vec<String>) -> Self {
        Self { kept, ..Self::default() }
    }

    // ---- the known state

    /// Every lock that is held or awaited, or was in the last minutes, by name.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&LockName, &Row)> {
        self.rows.iter().filter(|(_, row)| row.seen_ms > 0)
    }

    /// How many keys the first walk has passed so far; none once it has passed all keys.
    pub(crate) fn keys_so_far(&self) -> Option<u64> {
        (!self.is_whole).then_some(self.keys)
    }

    /// The probable deadlocks.
    pub(crate) fn deadlocks(&self) -> Vec<Deadlock<'_>> {
        deadlocks(&self.rows().collect::<Vec<_>>())
    }

    /// The totals over all locks.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let earlier = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        for (_, row) in self.rows().filter(|(_, row)| row.is_used()) {
            totals.unreadable += usize::from(row.unreadable.is_some());
            totals.held += usize::from(!row.status.is_free());
            totals.awaited += usize::from(row.status.waiting > 0);
            totals.waiting += u64::from(row.status.waiting);
            totals.waited_since_ms = earlier(totals.waited_since_ms, row.waited_since_ms());
            totals.held_since_ms = earlier(totals.held_since_ms, row.held_since_ms());
            totals.oldest_look_ms = earlier(totals.oldest_look_ms, Some(row.seen_ms));
        }
        totals
    }

    /// The selected locks, in order.
    pub(crate) fn list(&self, selection: &Selection) -> Vec<(&LockName, &Row)> {
        let text = selection.text.to_lowercase();
        let is_in = |(name, row): &(&LockName, &Row)| {
            (selection.has_free || row.is_used())
                && name.as_str().starts_with(&selection.prefix)
                && (text.is_empty() || row.has(name, &text))
        };
        let mut rows: Vec<_> = self.rows().filter(is_in).collect();
        rows.sort_by(|one, other| selection.order.place(one).cmp(&selection.order.place(other)));
        rows
    }

    // ---- new observations

    /// Records each prefix of kept names that is itself a name.
    pub(super) fn find_kept(&mut self, now_ms: u64) {
        let names = self.kept.iter().filter_map(|prefix| LockName::new(prefix).ok()).collect();
        self.found(names, now_ms);
    }

    /// Records the names of a page of keys.
    pub(super) fn found(&mut self, names: Vec<LockName>, now_ms: u64) {
        for name in names {
            if !self.rows.contains_key(&name) && self.rows.len() >= MOST_ROWS {
                self.is_cut = true;
                continue;
            }
            let row = self.rows.entry(name).or_insert_with(|| Row::new(now_ms));
            if row.due_ms == u64::MAX {
                row.due_ms = now_ms;
            }
        }
    }

    /// Records the result of a look at a lock at `now_ms`.
    pub(crate) fn saw(&mut self, name: &LockName, look: Look, now_ms: u64) {
        let row = self.rows.entry(name.clone()).or_insert_with(|| Row::new(now_ms));
        row.saw(look, now_ms);
        let kept_ms = is_kept(&self.kept, name, row).then_some(KEPT_MS);
        let interval_ms = row.interval_ms(now_ms).or(kept_ms);
        row.due_ms = interval_ms.map_or(u64::MAX, |interval_ms| now_ms + interval_ms);
    }

    /// Records whether everything was looked at at least once.
    pub(super) fn note_whole(&mut self) {
        self.is_whole |= self.walks > 0 && self.rows.values().all(|row| row.seen_ms > 0);
    }

    /// Records that the store answered. Returns whether it could not be looked at before.
    pub(super) fn note_there(&mut self) -> bool {
        let there = Availability { is_there: true, ..Availability::default() };
        mem::replace(&mut self.store, there).why.is_some()
    }

    /// Records that the store did not answer, or refused to let this user look. Returns whether
    /// that is new.
    pub(super) fn note_trouble(&mut self, error: &Error, now_ms: u64) -> bool {
        let is_denied =
            matches!(error, Error::Store(error) if error.kind() == StoreErrorKind::Denied);
        let since_ms = self.store.away_since_ms.unwrap_or(now_ms);
        let trouble = Availability {
            is_there: false,
            is_denied,
            away_since_ms: (!is_denied).then_some(since_ms),
            why: Some(error.to_string()),
        };
        mem::replace(&mut self.store, trouble).why.is_none()
    }

    /// Records that a walk over all keys begins.
    pub(super) fn round_begins(&mut self, now_ms: u64) {
        self.round_began_ms = Some(now_ms);
        if self.walks == 0 {
            self.keys = 0;
        }
        self.forget(now_ms);
    }

    /// Records that a walk over all keys has passed more keys.
    pub(super) fn passed(&mut self, keys: u32) {
        if self.walks == 0 {
            self.keys += u64::from(keys);
        }
    }

    /// Records that a walk over all keys has ended.
    pub(super) fn round_ends(&mut self, now_ms: u64) {
        self.walks += 1;
        self.round_took_ms = self.round_began_ms.map(|began_ms| now_ms.saturating_sub(began_ms));
        self.is_cut &= self.rows.len() >= MOST_ROWS;
    }

    // ---- the next looks

    /// Takes at most `most` names whose look is due, the earliest first. From now on they count as
    /// looked at.
    pub(super) fn take_due(&mut self, now_ms: u64, most: usize) -> Vec<LockName> {
        let due = self.rows.iter_mut().filter(|(_, row)| row.due_ms <= now_ms);
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(_, row)| row.due_ms);
        due.truncate(most);
        let taken = due.into_iter().map(|(name, row)| {
            // If the look at this name fails, the looks at other names come first.
            row.due_ms = now_ms + HELD_MS;
            name.clone()
        });
        taken.collect()
    }

    /// When the next look at a name is due.
    pub(super) fn next_due_ms(&self) -> u64 {
        self.rows.values().map(|row| row.due_ms).min().unwrap_or(u64::MAX)
    }

    /// Forgets names that were unused for as long as a timeline reaches back, except kept names.
    fn forget(&mut self, now_ms: u64) {
        let kept = &self.kept;
        self.rows.retain(|name, row| {
            let is_recent = row.used_ms > 0 && row.used_ms + SPAN_MS > now_ms;
            row.is_used() || row.seen_ms == 0 || is_recent || is_kept(kept, name, row)
        });
    }
}

/// Whether this is a kept name. A kept name is watched also while it is free, so that the time of
/// its last release is known.
fn is_kept(kept: &[String], name: &LockName, row: &Row) -> bool {
    row.released_ms().is_some() && kept.iter().any(|prefix| name.as_str().starts_with(prefix))
}

#[cfg(test)]
mod tests;
