//! The locks of a picture that a view shows, in order.

use leasehold::LockName;
use serde::Deserialize;

use super::picture::Picture;
use super::row::Row;

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

impl Picture {
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
}
