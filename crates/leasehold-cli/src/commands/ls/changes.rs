//! The differences between two lists of locks, as lines for programs.

use std::collections::BTreeSet;

use leasehold::LockName;
use leasehold::time::show_duration;
use serde::Serialize;

use crate::commands::lock_line::LockLine;
use crate::commands::status_view::StatusView;
use crate::moment::iso;
use crate::report::escaped;
use crate::watch::Availability;

/// A change of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeKind {
    /// The lock is in the list, and was not before.
    Appeared,
    /// The holders or the waiters of the lock have changed.
    Changed,
    /// The lock is not in the list any more.
    Gone,
    /// The store does not answer.
    Away,
    /// The store answers again.
    Back,
}

/// The list that was shown last.
#[derive(Debug, Default)]
pub(super) struct Shown {
    names: BTreeSet<LockName>,
    is_away: bool,
}

/// One change, as JSON and as a line of text.
#[derive(Debug, Serialize)]
pub(super) struct ListChange<'a> {
    change: ChangeKind,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<LockName>,
    lock: Option<StatusView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip)]
    line: Option<&'a LockLine>,
}

impl Shown {
    /// The changes between the last list and this one. `altered` are the locks whose holders or
    /// waiters have changed. First comes the loss or return of the store, then the locks that are
    /// gone, and then the rest in the order of the list.
    pub(super) fn changes<'a>(
        &mut self,
        lines: &'a [LockLine],
        altered: &BTreeSet<LockName>,
        store: &'a Availability,
        now_ms: u64,
    ) -> Vec<ListChange<'a>> {
        let change = |kind, name| ListChange {
            change: kind,
            at: iso(now_ms),
            name,
            lock: None,
            why: None,
            line: None,
        };
        let is_away = store.why().is_some();
        let was_away = std::mem::replace(&mut self.is_away, is_away);
        let kind = if is_away { ChangeKind::Away } else { ChangeKind::Back };
        let of_store = ListChange { why: store.why(), ..change(kind, None) };
        let of_store = (was_away != is_away).then_some(of_store);
        let names: BTreeSet<LockName> = lines.iter().map(|line| line.name.clone()).collect();
        let before = std::mem::replace(&mut self.names, names);
        let gone = before.difference(&self.names);
        let gone = gone.map(|name| change(ChangeKind::Gone, Some(name.clone())));
        let there = lines.iter().filter_map(|line| {
            let kind = match before.contains(&line.name) {
                false => ChangeKind::Appeared,
                true if altered.contains(&line.name) => ChangeKind::Changed,
                true => return None,
            };
            let lock = Some(line.view());
            Some(ListChange { lock, line: Some(line), ..change(kind, Some(line.name.clone())) })
        });
        of_store.into_iter().chain(gone).chain(there).collect()
    }
}

impl ListChange<'_> {
    /// The change, for people.
    pub(super) fn text(&self) -> String {
        let kind = match self.change {
            ChangeKind::Appeared => "appeared",
            ChangeKind::Changed => "changed",
            ChangeKind::Gone => "gone",
            ChangeKind::Away => "away",
            ChangeKind::Back => "back",
        };
        let name = self.name.as_ref().map(|name| escaped(name.as_str()));
        let parts = [Some(self.at.clone()), Some(format!("{kind:<8}")), name];
        let parts = parts.into_iter().chain([self.line.map(in_words), self.why.map(escaped)]);
        parts.flatten().collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// The holder of a lock and the number of waiters, in one line.
fn in_words(line: &LockLine) -> String {
    let held = line.held.map(|held| format!("held for {}", show_duration(held)));
    let token = line.token().map(|token| format!("token {token}"));
    let waiting =
        (line.row.status.waiting > 0).then(|| format!("{} waiting", line.row.status.waiting));
    let label = Some(escaped(&line.label())).filter(|label| !label.is_empty());
    let parts = [Some(line.mode()), Some(escaped(&line.holder())), held, token, waiting, label];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}
