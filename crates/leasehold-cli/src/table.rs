//! Tables for people: columns as wide as their widest cell.

use std::io::{IsTerminal as _, stdout};

use crate::report::escaped;
use crate::terminal;

/// Lays rows out under their titles. The last column is not padded.
pub(crate) fn table<const N: usize>(titles: [&str; N], rows: &[[String; N]]) -> String {
    let titles = titles.map(str::to_owned);
    let rows = rows.iter().map(|row| row.clone().map(|cell| escaped(&cell)));
    let rows: Vec<[String; N]> = std::iter::once(titles).chain(rows).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Lines no longer than the terminal is wide; all of them if stdout is none.
pub(crate) fn cut_to_terminal(text: String) -> String {
    match stdout().is_terminal() {
        true => cut(&text, terminal::columns(stdout())),
        false => text,
    }
}

/// Lines of at most so many characters; a sign at the end says that there were more.
fn cut(text: &str, columns: usize) -> String {
    let lines = text.lines().map(|line| match line.char_indices().nth(columns) {
        None => line.to_owned(),
        Some(_) => line.chars().take(columns - 1).chain(['…']).collect(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_cells_stay_on_their_line() {
        let rows = [["ü\n".to_owned(), "1".to_owned()], ["long name".to_owned(), "22".to_owned()]];
        assert_eq!(table(["NAME", "N"], &rows), "NAME       N\nü\\n        1\nlong name  22");
    }

    #[test]
    fn what_is_wider_than_the_terminal_is_cut_with_a_sign_that_there_was_more() {
        assert_eq!(cut("abcde\nüüüüüü\n\nabc", 5), "abcde\nüüüü…\n\nabc");
    }
}
