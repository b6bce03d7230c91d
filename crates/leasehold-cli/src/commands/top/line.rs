//! What the table says of one lock.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use leasehold::admin::Status;
use leasehold::{FencingToken, LockName};
use leasehold_watch::{History, Row};

use crate::commands::status_view::{holder_in_words, use_of};

/// One lock, as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: LockName,
    /// What it is held as.
    pub(super) mode: String,
    pub(super) holder: String,
    pub(super) held: Option<Duration>,
    pub(super) left: Option<Duration>,
    pub(super) waiting: u32,
    /// How long the first in the queue has waited.
    pub(super) waited: Option<Duration>,
    pub(super) per_second: f64,
    pub(super) is_used: bool,
    pub(super) status: Status,
    pub(super) history: History,
}

/// By what the table is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The longest wait first, then the oldest hold: what may be stuck.
    #[default]
    Waited,
    Waiting,
    Held,
    PerSecond,
    Name,
}

impl Line {
    pub(super) fn new(name: &LockName, row: &Row, now_ms: u64) -> Self {
        let since = |since_ms: u64| Duration::from_millis(now_ms.saturating_sub(since_ms));
        let age = row.age(now_ms);
        let status = &row.status;
        let left = status.holders.iter().map(|holder| holder.ttl_left).max();
        let foreign_left = status.foreign.as_ref().and_then(|foreign| foreign.ttl_left);
        Self {
            name: name.clone(),
            mode: if status.is_free() { "-".to_owned() } else { use_of(status) },
            holder: holder_in_words(status),
            held: row.held_since_ms().map(since),
            left: left.or(foreign_left).map(|left| left.saturating_sub(age)),
            waiting: status.waiting,
            waited: row.waited_since_ms().map(since),
            per_second: row.entries_per_second(now_ms),
            is_used: row.is_used(),
            status: status.clone(),
            history: row.history.clone(),
        }
    }

    /// The token with which its oldest hold is revoked.
    pub(super) fn token(&self) -> Option<FencingToken> {
        self.status.holders.first().map(|holder| holder.token)
    }

    /// Whether this text is in its name, its holder or a label.
    pub(super) fn has(&self, text: &str) -> bool {
        let labels = self.status.holders.iter().filter_map(|holder| holder.info.label.as_deref());
        let mut texts = [self.name.as_str(), &self.holder].into_iter().chain(labels);
        texts.any(|own| own.contains(text))
    }
}

impl Sort {
    const ALL: [Self; 5] = [Self::Waited, Self::Waiting, Self::Held, Self::PerSecond, Self::Name];

    /// The next one, around in a circle.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The title of the column that it goes by.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Waited => "LONGEST",
            Self::Waiting => "WAITING",
            Self::Held => "HELD",
            Self::PerSecond => "ENTRIES/S",
            Self::Name => "NAME",
        }
    }

    pub(super) fn compare(self, one: &Line, other: &Line) -> Ordering {
        let longest_first = |line: &Line| Reverse((line.waited, line.held));
        let by = match self {
            Self::Waited => Ordering::Equal,
            Self::Waiting => other.waiting.cmp(&one.waiting),
            Self::Held => other.held.cmp(&one.held),
            Self::PerSecond => other.per_second.total_cmp(&one.per_second),
            Self::Name => one.name.cmp(&other.name),
        };
        by.then_with(|| longest_first(one).cmp(&longest_first(other)))
            .then_with(|| one.name.cmp(&other.name))
    }
}
