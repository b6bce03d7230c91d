//! Tables for people: columns as wide as their widest cell, and lines as wide as the terminal.

use std::io::{IsTerminal as _, stdout};

use crate::report::escaped;
use crate::terminal;

/// The gap between two columns.
const GAP: usize = 2;

/// The shortest length to which a text is cut if there is no room: 8 characters.
const LEAST_TEXT: usize = 8;

/// A column, and how it is shown if there is no room for all columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// The column with the highest rank is left out first.
    pub(crate) rank: u8,
    /// The cells are texts that may be cut.
    pub(crate) is_text: bool,
}

impl Column {
    /// A column of short values, which are never cut.
    pub(crate) const fn of_values(title: &'static str, rank: u8) -> Self {
        Self { title, rank, is_text: false }
    }

    /// A column of texts, which may be cut.
    pub(crate) const fn of_texts(title: &'static str, rank: u8) -> Self {
        Self { title, rank, is_text: true }
    }
}

/// The room for a table: the width of stdout, if stdout is a terminal.
pub(crate) fn room() -> Option<usize> {
    stdout().is_terminal().then(|| terminal::columns(stdout()))
}

/// Lays rows out under their titles, in lines that fit. The last column is not padded.
pub(crate) fn table<const N: usize>(
    columns: &[Column; N],
    rows: &[[String; N]],
    room: Option<usize>,
) -> String {
    let titles = columns.map(|column| column.title.to_owned());
    let rows = rows.iter().map(|row| row.clone().map(|cell| escaped(&cell)));
    let rows: Vec<[String; N]> = std::iter::once(titles).chain(rows).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let shown = fit(columns, &mut widths, room.unwrap_or(usize::MAX));
    let lines = rows.iter().map(|row| {
        let cells = shown.iter().map(|&at| {
            let (cell, width) = (cut(&row[at], widths[at]), widths[at]);
            format!("{cell:width$}")
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        cut(line.trim_end(), room.unwrap_or(usize::MAX))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Leaves columns out if even cut texts have no room, and then shortens the widths of texts until
/// the rest fits. Returns the columns that are shown.
fn fit<const N: usize>(columns: &[Column; N], widths: &mut [usize; N], room: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..N).collect();
    let least = |at: usize, width: usize| match columns[at].is_text {
        true => width.min(LEAST_TEXT),
        false => width,
    };
    let gaps = |shown: &[usize]| GAP * shown.len().saturating_sub(1);
    while shown.len() > 1
        && gaps(&shown) + shown.iter().map(|&at| least(at, widths[at])).sum::<usize>() > room
    {
        let highest = shown.iter().copied().max_by_key(|&at| columns[at].rank);
        shown.retain(|at| Some(*at) != highest);
    }
    loop {
        let total = gaps(&shown) + shown.iter().map(|&at| widths[at]).sum::<usize>();
        let longer = shown.iter().copied().filter(|&at| widths[at] > least(at, widths[at]));
        match longer.max_by_key(|&at| widths[at]).filter(|_| total > room) {
            Some(widest) => widths[widest] -= 1,
            None => return shown,
        }
    }
}

/// Cuts a text to at most `most` characters. A cut text ends in `…`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::of_texts("NAME", 0), Column::of_values("N", 1), Column::of_texts("LABEL", 2)];

    fn row(name: &str, number: &str, label: &str) -> [String; 3] {
        [name, number, label].map(str::to_owned)
    }

    #[test]
    fn columns_line_up_and_cells_stay_on_their_line() {
        let rows = [row("ü\n", "1", ""), row("long name", "22", "x")];
        let all = "NAME       N   LABEL\nü\\n        1\nlong name  22  x";
        assert_eq!(table(&COLUMNS, &rows, None), all);
        assert_eq!(table(&COLUMNS, &rows, Some(20)), all);
    }

    #[test]
    fn where_there_is_not_room_texts_are_cut_before_a_column_is_left_out() {
        let rows = [row("a/long/name/of/a/lock", "12345", "a label that is long as well")];
        assert_eq!(
            table(&COLUMNS, &rows, Some(40)),
            "NAME              N      LABEL\na/long/name/of/…  12345  a label that i…"
        );
        assert_eq!(table(&COLUMNS, &rows, Some(20)), "NAME           N\na/long/name/…  12345");
        for room in 1..60 {
            let lines = table(&COLUMNS, &rows, Some(room));
            assert!(lines.lines().all(|line| line.chars().count() <= room), "{room}: {lines}");
        }
    }
}
