//! Which locks are listed, in which order, and as which rows.

use leasehold::time::show_duration;

use crate::args::Ls;
use crate::commands::lock_line::LockLine;
use crate::commands::status_view::foreign_words;
use crate::moment::{began_ms, local};
use crate::table::{Column, table};

/// In 40 columns there is room for name, mode, holder, held and waiting.
const COLUMNS: [Column; 9] = [
    Column::of_texts("NAME", 0),
    Column::of_values("MODE", 4),
    Column::of_texts("HOLDER", 1),
    Column::of_values("SINCE", 7),
    Column::of_values("HELD", 2),
    Column::of_values("LEFT", 5),
    Column::of_values("TOKEN", 8),
    Column::of_values("WAITING", 3),
    Column::of_texts("LABEL", 6),
];

/// The request for a list.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    args: &'a Ls,
}

impl<'a> Listing<'a> {
    pub(super) fn new(args: &'a Ls) -> Self {
        Self { args }
    }

    /// Those of them that are listed, in order.
    pub(super) fn of(&self, locks: impl IntoIterator<Item = LockLine>) -> Vec<LockLine> {
        let mut lines: Vec<LockLine> = locks.into_iter().filter(|line| self.has(line)).collect();
        lines.sort_by(|one, other| one.compare(other, self.args.sort));
        lines
    }

    fn has(&self, line: &LockLine) -> bool {
        let is_old = self.args.held_longer_than.is_none_or(|least| line.held > Some(least));
        // A lock that was let go between two requests is idle by now.
        let is_wanted = self.args.all || line.is_used;
        is_old && is_wanted && line.name.as_str().starts_with(&self.args.prefix)
    }

    /// The message if no lock is listed.
    pub(super) fn nothing(&self) -> String {
        let is = match (self.args.all, self.args.held_longer_than) {
            (true, _) => "is remembered".to_owned(),
            (false, Some(least)) => format!("is held for longer than {}", show_duration(least)),
            (false, None) => "is held or awaited".to_owned(),
        };
        match self.args.prefix.as_str() {
            "" => format!("no lock {is}"),
            prefix => format!("no lock whose name begins with {prefix} {is}"),
        }
    }
}

/// The locks as a table that is as wide as there is room.
pub(super) fn rows(lines: &[LockLine], now_ms: u64, room: Option<usize>) -> String {
    let rows: Vec<_> = lines.iter().map(|line| row(line, now_ms)).collect();
    table(&COLUMNS, &rows, room)
}

fn row(line: &LockLine, now_ms: u64) -> [String; COLUMNS.len()] {
    let (name, waiting) = (line.name.to_string(), line.waiting.to_string());
    let (mode, unknown) = (line.mode.clone(), || "-".to_owned());
    if let Some(foreign) = &line.status.foreign {
        let [holder, left, label] = foreign_words(foreign);
        return [name, mode, holder, unknown(), unknown(), left, unknown(), waiting, label];
    }
    let (holder, span) = (line.holder.clone(), |span: Option<_>| span.map(show_duration));
    let (held, left) = (span(line.held), span(line.left));
    let Some(first) = line.status.holders.first() else {
        let token = line.status.last_token.map(|token| format!("({token})"));
        let [since, held, left] = [unknown(), unknown(), unknown()];
        let token = token.unwrap_or_default();
        return [name, mode, holder, since, held, left, token, waiting, line.label()];
    };
    let longest = line.status.holders.iter().map(|holder| holder.held_for).max();
    let since = longest.map(|longest| local(began_ms(line.seen_ms, longest), now_ms));
    [
        name,
        mode,
        holder,
        since.unwrap_or_else(unknown),
        held.unwrap_or_else(unknown),
        left.unwrap_or_else(unknown),
        first.token.to_string(),
        waiting,
        line.label(),
    ]
}
