//! One lock in the lists of `ls` and `top`, and the orders of a list.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use leasehold::admin::{HoldState, Holder};
use leasehold::lease::Mode;
use leasehold::{FencingToken, LockName};

use super::status_view::{ANOTHER, StatusView};
use crate::watch::{Look, Row};

/// One lock in a list.
#[derive(Clone, Debug)]
pub(super) struct LockLine {
    pub(super) name: LockName,
    pub(super) row: Row,
    /// How long the oldest hold has lasted, if that is known.
    pub(super) held: Option<Duration>,
    /// How long the lock stays held if no hold is renewed.
    pub(super) left: Option<Duration>,
    /// The longest time that a present waiter has waited.
    pub(super) waited: Option<Duration>,
    /// New holds per second; zero for a lock that is not watched.
    pub(super) per_second: f64,
}

impl LockLine {
    /// The line of a lock that was inspected one time.
    pub(super) fn seen(name: LockName, look: Look, seen_ms: u64) -> Self {
        let mut row = Row::new(seen_ms);
        row.saw(&name, look, seen_ms);
        Self::new(name, row, seen_ms)
    }

    /// The line of a lock, some time after it was looked at.
    pub(super) fn new(name: LockName, row: Row, now_ms: u64) -> Self {
        let (status, age) = (&row.status, row.age(now_ms));
        let left = status.holders.iter().map(|holder| holder.ttl_left).max();
        let left = left.or(status.foreign.as_ref().and_then(|foreign| foreign.ttl_left));
        Self {
            held: status.holders.iter().map(|holder| holder.held_for + age).max(),
            left: left.map(|left| left.saturating_sub(age)),
            waited: status.waiters.iter().map(|waiter| waiter.waited + age).max(),
            per_second: row.entries_per_second(now_ms),
            name,
            row,
        }
    }

    /// The line as JSON.
    pub(super) fn view(&self) -> StatusView<'_> {
        let Row { status, unreadable, seen_ms, .. } = &self.row;
        StatusView::new(&self.name, status, unreadable.as_ref(), *seen_ms)
    }

    /// The mode of the lock: `w` for an exclusive holder, `r` or `r×2` for readers, `3/4` for
    /// permits, and `?` if the record cannot be read.
    pub(super) fn mode(&self) -> String {
        let status = &self.row.status;
        if let Some(foreign) = &status.foreign {
            // A record of another program does not tell the number of readers.
            return if foreign.mode == Mode::Shared { "r" } else { "w" }.to_owned();
        }
        let taken = status.holders.iter().map(|holder| u64::from(holder.mode.weight()));
        match (status.holders.first().map(|first| first.mode), status.holders.len()) {
            (None, _) => if self.row.unreadable.is_some() { "?" } else { "-" }.to_owned(),
            (Some(Mode::Shared), 1) => "r".to_owned(),
            (Some(Mode::Shared), readers) => format!("r×{readers}"),
            (Some(Mode::Permits { capacity, .. }), _) => {
                format!("{}/{capacity}", taken.sum::<u64>())
            }
            _ => "w".to_owned(),
        }
    }

    /// The first holder of the lock, and the number of other holders.
    pub(super) fn holder(&self) -> String {
        let (status, unreadable) = (&self.row.status, self.row.unreadable.is_some());
        match status.holders.split_first() {
            None if unreadable => "cannot be read".to_owned(),
            None if status.foreign.is_some() => ANOTHER.to_owned(),
            None => "-".to_owned(),
            Some((first, [])) => first_words(first),
            Some((first, others)) => format!("{} +{}", first_words(first), others.len()),
        }
    }

    /// The token that revokes the oldest hold.
    pub(super) fn token(&self) -> Option<FencingToken> {
        self.row.status.holders.first().map(|holder| holder.token)
    }

    /// The label of the first holder, or why the record cannot be read.
    pub(super) fn label(&self) -> String {
        let first = self.row.status.holders.first();
        let label = first.and_then(|first| first.info.label.clone());
        self.row.unreadable.as_ref().map(ToString::to_string).or(label).unwrap_or_default()
    }

    /// Whether the name, the holder or a label contains this text.
    pub(super) fn has(&self, text: &str) -> bool {
        let holders = self.row.status.holders.iter();
        let mut labels = holders.filter_map(|holder| holder.info.label.as_deref());
        self.name.as_str().contains(text)
            || self.holder().contains(text)
            || labels.any(|label| label.contains(text))
    }

    /// Compares two lines in this order.
    pub(super) fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        let longest_first = |line: &Self| Reverse((line.waited, line.held));
        let by = match sort {
            Sort::Longest => Ordering::Equal,
            Sort::Waiting => other.row.status.waiting.cmp(&self.row.status.waiting),
            Sort::Held => other.held.cmp(&self.held),
            Sort::Name => self.name.cmp(&other.name),
        };
        by.then_with(|| longest_first(self).cmp(&longest_first(other)))
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// A holder in words. If its process has ended, the words say so, so that nobody looks for the
/// process.
fn first_words(first: &Holder) -> String {
    let cooldown = if first.state == HoldState::Cooldown { "cooldown of " } else { "" };
    format!("{cooldown}{}:{}", first.info.host, first.info.pid)
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The longest wait first, then the oldest hold: what may be stuck.
    #[default]
    Longest,
    /// The longest queue first.
    Waiting,
    /// The oldest hold first.
    Held,
    Name,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Longest, Self::Waiting, Self::Held, Self::Name];

    /// The next order; the first one follows the last.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The title of the column that the list is sorted by.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Longest => "LONGEST",
            Self::Waiting => "WAITING",
            Self::Held => "HELD",
            Self::Name => "NAME",
        }
    }
}
