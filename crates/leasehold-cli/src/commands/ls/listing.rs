//! The listed locks as rows of a table, and the message for an empty list.

use leasehold::time::show_duration;

use crate::commands::lock_line::{Listing, LockLine};
use crate::commands::status_view::foreign_words;
use crate::moment::local;
use crate::table::{Column, table};

/// The columns of the table. A terminal of 40 characters has room for name, mode, holder, held and
/// waiting.
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

/// The message if no lock is listed.
pub(super) fn nothing(listing: &Listing) -> String {
    let is = match (listing.all, listing.held_longer_than) {
        (true, _) => "is remembered".to_owned(),
        (false, Some(least)) => format!("is held for longer than {}", show_duration(least)),
        (false, None) => "is held or awaited".to_owned(),
    };
    match listing.prefix.as_str() {
        "" => format!("no lock {is}"),
        prefix => format!("no lock whose name begins with {prefix} {is}"),
    }
}

/// The locks as a table that fits into the room.
pub(super) fn rows(lines: &[LockLine], now_ms: u64, room: Option<usize>) -> String {
    let rows: Vec<_> = lines.iter().map(|line| row(line, now_ms)).collect();
    table(&COLUMNS, &rows, room)
}

fn row(line: &LockLine, now_ms: u64) -> [String; COLUMNS.len()] {
    let (name, status) = (line.name.to_string(), &line.row.status);
    let (mode, waiting, unknown) = (line.mode(), status.waiting.to_string(), || "-".to_owned());
    if let Some(foreign) = &status.foreign {
        let [holder, left, label] = foreign_words(foreign);
        return [name, mode, holder, unknown(), unknown(), left, unknown(), waiting, label];
    }
    let span = |span: Option<_>| span.map_or_else(unknown, show_duration);
    let since = line.row.held_since_ms().map(|since_ms| local(since_ms, now_ms));
    let token = match (line.token(), status.last_token) {
        (Some(token), _) => token.to_string(),
        (None, last) => last.map(|last| format!("({last})")).unwrap_or_default(),
    };
    [
        name,
        mode,
        line.holder(),
        since.unwrap_or_else(unknown),
        span(line.held),
        span(line.left),
        token,
        waiting,
        line.label(),
    ]
}
