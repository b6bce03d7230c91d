//! Tables, as Markdown: read in a terminal, pasted into a page.

use std::fmt;

/// A table that grows by rows.
#[derive(Debug)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a title and the heads of its columns.
    pub fn new(title: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { title: title.to_owned(), rows: vec![heads] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.title)?;
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (at, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "| {cell:<width$} ")?,
                    _ => write!(f, "| {cell:>width$} ")?,
                }
            }
            writeln!(f, "|")?;
            if at == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let line = "-".repeat(width + 1);
                    write!(f, "|{line}{}", if column == 0 { '-' } else { ':' })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_names_to_the_left() {
        let mut table = Table::new("Speed", &["who", "per s"]);
        table.row(["a".to_owned(), "1000000".to_owned()]);
        let text = "### Speed\n\n| who |   per s |\n|-----|--------:|\n| a   | 1000000 |\n";
        assert_eq!(table.to_string(), text);
    }
}
