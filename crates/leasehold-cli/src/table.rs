//! Tables for people: columns as wide as their widest cell.

use crate::report::escaped;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_cells_stay_on_their_line() {
        let rows = [["ü\n".to_owned(), "1".to_owned()], ["long name".to_owned(), "22".to_owned()]];
        assert_eq!(table(["NAME", "N"], &rows), "NAME       N\nü\\n        1\nlong name  22");
    }
}
