//! One lock among others, as `ls` and `top` list it.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use leasehold::admin::Status;
use leasehold::error::StoreError;
use leasehold::{FencingToken, LockName};

use super::status_view::{StatusView, UNREADABLE, holder_in_words, use_of};
use crate::args::Sort;
use crate::watch::{History, Look, Row};

/// One lock, as it is shown.
#[derive(Clone, Debug)]
pub(super) struct LockLine {
    pub(super) name: LockName,
    /// The mode in which the lock is held.
    pub(super) mode: String,
    pub(super) holder: String,
    /// For how long, if anybody knows: of several holders the first.
    pub(super) held: Option<Duration>,
    /// How long the last of its holds lasts if nobody renews it.
    pub(super) left: Option<Duration>,
    pub(super) waiting: u32,
    /// The longest that a present waiter has waited.
    pub(super) waited: Option<Duration>,
    /// Entries per second; none of a lock that is not watched.
    pub(super) per_second: f64,
    pub(super) is_used: bool,
    pub(super) status: Status,
    /// Why its record cannot be read, if that is so.
    pub(super) unreadable: Option<StoreError>,
    /// When it was so, in milliseconds since 1970.
    pub(super) seen_ms: u64,
    pub(super) history: History,
}

impl LockLine {
    /// The line of a lock that was looked at once.
    pub(super) fn seen(name: LockName, look: Look, seen_ms: u64) -> Self {
        match look {
            Ok(status) => Self::aged(name, status, seen_ms, Duration::ZERO),
            Err(why) => {
                Self::aged(name, Status::default(), seen_ms, Duration::ZERO).marked(Some(why))
            }
        }
    }

    /// The line as JSON.
    pub(super) fn view(&self) -> StatusView<'_> {
        StatusView::new(&self.name, &self.status, self.unreadable.as_ref(), self.seen_ms)
    }

    /// The line of a lock whose record cannot be read, if that is so: nobody knows who holds it.
    fn marked(self, unreadable: Option<StoreError>) -> Self {
        match unreadable {
            None => self,
            Some(_) => Self {
                mode: "?".to_owned(),
                holder: UNREADABLE.to_owned(),
                is_used: true,
                unreadable,
                ..self
            },
        }
    }

    /// The line of a lock that is watched.
    pub(super) fn watched(name: &LockName, row: &Row, now_ms: u64) -> Self {
        Self {
            per_second: row.entries_per_second(now_ms),
            history: row.history.clone(),
            ..Self::aged(name.clone(), row.status.clone(), row.seen_ms, row.age(now_ms))
                .marked(row.unreadable.clone())
        }
    }

    fn aged(name: LockName, status: Status, seen_ms: u64, age: Duration) -> Self {
        let (holders, foreign) = (&status.holders, status.foreign.as_ref());
        let left = holders.iter().map(|holder| holder.ttl_left).max();
        let left = left.or(foreign.and_then(|foreign| foreign.ttl_left));
        Self {
            name,
            mode: if status.is_free() { "-".to_owned() } else { use_of(&status) },
            holder: holder_in_words(&status),
            held: holders.iter().map(|holder| holder.held_for + age).max(),
            left: left.map(|left| left.saturating_sub(age)),
            waiting: status.waiting,
            waited: status.waiters.iter().map(|waiter| waiter.waited + age).max(),
            per_second: 0.0,
            is_used: !status.is_free() || status.waiting > 0,
            status,
            unreadable: None,
            seen_ms,
            history: History::default(),
        }
    }

    /// The token with which its oldest hold is revoked.
    pub(super) fn token(&self) -> Option<FencingToken> {
        self.status.holders.first().map(|holder| holder.token)
    }

    /// The label of the first holder, or why the record cannot be read.
    pub(super) fn label(&self) -> String {
        let first = self.status.holders.first();
        let label = first.and_then(|first| first.info.label.clone());
        self.unreadable.as_ref().map(ToString::to_string).or(label).unwrap_or_default()
    }

    /// Whether this text is in its name, its holder or a label.
    pub(super) fn has(&self, text: &str) -> bool {
        let labels = self.status.holders.iter().filter_map(|holder| holder.info.label.as_deref());
        let mut texts = [self.name.as_str(), &self.holder].into_iter().chain(labels);
        texts.any(|own| own.contains(text))
    }

    /// Which of two comes first.
    pub(super) fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        let longest_first = |line: &Self| Reverse((line.waited, line.held));
        // A hold without an end, or with one that nobody knows, comes last.
        let ends = |line: &Self| (line.left.is_none(), line.left);
        let by = match sort {
            Sort::Longest => Ordering::Equal,
            Sort::Waiting => other.waiting.cmp(&self.waiting),
            Sort::Held => other.held.cmp(&self.held),
            Sort::Left => ends(self).cmp(&ends(other)),
            Sort::Entries => other.per_second.total_cmp(&self.per_second),
            Sort::Name => self.name.cmp(&other.name),
        };
        by.then_with(|| longest_first(self).cmp(&longest_first(other)))
            .then_with(|| self.name.cmp(&other.name))
    }
}
