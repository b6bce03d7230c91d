//! A list on a terminal that is drawn again in its place, without taking the screen.

use std::io::stdout;

use crate::report::{Failure, print};
use crate::table::cut;
use crate::terminal;

/// What was drawn last.
#[derive(Debug, Default)]
pub(super) struct Screen {
    lines: usize,
}

impl Screen {
    /// Draws a heading and lines in the place of those before, as many as the terminal has room
    /// for.
    pub(super) fn draw(&mut self, heading: &str, rows: &str) -> Result<(), Failure> {
        let (columns, most) = (terminal::columns(stdout()), terminal::rows(stdout()));
        let mut lines: Vec<String> =
            [heading].into_iter().chain(rows.lines()).map(|line| cut(line, columns)).collect();
        // The cursor stands on a line of its own.
        let room = most.saturating_sub(1).max(1);
        if lines.len() > room {
            let left_out = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(cut(&format!("and {left_out} more: give a prefix"), columns));
        }
        let back = match self.lines {
            0 => String::new(),
            // Up to where the heading stands, and all that is below it is erased.
            lines => format!("\r\x1b[{lines}A\x1b[J"),
        };
        self.lines = lines.len();
        print(format_args!("{back}{}", lines.join("\n")))
    }
}
