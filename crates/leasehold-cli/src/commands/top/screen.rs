//! Draws the table, and the windows over it.

use std::time::Duration;

use leasehold::LockName;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

use super::view::{Mode, View};
use crate::commands::show::tables;
use crate::commands::totals::{away_in_words, in_seconds};
use crate::report::escaped;
use crate::watch::{self, Order};

/// The columns, each with the least width of the terminal at which it is shown.
const COLUMNS: [Column; 8] = [
    Column { title: "NAME", width: Constraint::Fill(3), from_width: 0 },
    Column { title: "MODE", width: Constraint::Length(5), from_width: 60 },
    Column { title: "HOLDER", width: Constraint::Fill(2), from_width: 0 },
    Column { title: "HELD", width: Constraint::Length(7), from_width: 0 },
    Column { title: "LEFT", width: Constraint::Length(6), from_width: 60 },
    Column { title: "WAITING", width: Constraint::Length(7), from_width: 0 },
    Column { title: "LONGEST", width: Constraint::Length(7), from_width: 60 },
    Column { title: "LABEL", width: Constraint::Fill(2), from_width: 100 },
];

/// A column of the table.
struct Column {
    title: &'static str,
    width: Constraint,
    from_width: u16,
}

/// The mark before names in a deadlock, also for terminals without colour.
const DEADLOCK: &str = "! ";

const KEYS: &str = "q quit  / filter  s sort  Enter queue  r revoke  ? help";

const HELP: [&str; 12] = [
    "Up, Down, k, j        another lock",
    "PageUp, PageDown      ten further: also b and space",
    "Home, End, g, G       the first, the last",
    "/                     only locks with a text in name, holder or label; Esc: all again",
    "s                     sort by another column",
    "Enter                 who holds and who waits, in the order of the queue",
    "r                     ask the holder to stop, after a question",
    "q, Ctrl-C, Ctrl-Z     quit; stop until `fg`",
    "",
    "MODE: w one alone, r one reader, r×3 three, 3/4 of its permits,",
    "? a record that cannot be read; Enter says why.",
    "! before a name: its waiters are in a deadlock; Enter says who waits for whom.",
];

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let line = Constraint::Length(1);
    let [head, body, foot] =
        Layout::vertical([line, Constraint::Fill(1), line]).areas(frame.area());
    frame.render_widget(heading(view), head);
    match view.mode {
        Mode::Details => draw_details(frame, view, body),
        Mode::Help => frame.render_widget(Paragraph::new(HELP.map(Text::from).to_vec()), body),
        Mode::Table | Mode::Filter | Mode::Revoke { .. } => draw_table(frame, view, body),
    }
    frame.render_widget(footing(view), foot);
}

fn heading(view: &View) -> Text<'_> {
    if let Some(words) = away_in_words(&view.availability, view.now_ms) {
        return Text::from(words).bold();
    }
    Text::from(vec![
        Span::from(view.totals.as_str()).bold(),
        Span::from(format!("  {}", view.store)),
    ])
}

fn footing(view: &View) -> Text<'_> {
    match (&view.mode, &view.message) {
        (Mode::Filter, _) => Text::from(format!("/{}_", escaped(&view.selection.text))),
        (Mode::Revoke { name, lease, holder }, _) => {
            let (name, holder) = (escaped(name.as_str()), escaped(holder));
            let question = format!("revoke {name} from {holder}, lease {lease}? y / any other key");
            Text::from(question).bold()
        }
        (_, Some(message)) => Text::from(escaped(message)).bold(),
        (Mode::Table | Mode::Details | Mode::Help, None) if view.selection.text.is_empty() => {
            Text::from(KEYS).dim()
        }
        (Mode::Table | Mode::Details | Mode::Help, None) => {
            Text::from(format!("only with {:?}; Esc for all", view.selection.text)).dim()
        }
    }
}

fn draw_table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    if view.rows.is_empty() {
        let words = match (view.is_whole, view.selection.text.as_str()) {
            (false, "") => "no lock found yet",
            (false, _) => "no lock with that text found yet",
            (true, "") => "no lock is held or awaited",
            (true, _) => "no lock has that text",
        };
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let columns = COLUMNS.iter().filter(|column| area.width >= column.from_width);
    let sorted = match view.selection.order {
        Order::Longest => "LONGEST",
        Order::Waiting => "WAITING",
        Order::Held => "HELD",
        Order::Name => "NAME",
    };
    let titles = columns.clone().map(|column| match column.title == sorted {
        true => Cell::from(column.title).underlined(),
        false => Cell::from(column.title),
    });
    let header = Row::new(titles).bold();
    let rows = view.rows.iter().map(|(name, row)| cells(view, name, row, area.width));
    let table = Table::new(rows, columns.map(|column| column.width))
        .header(header)
        .row_highlight_style(Style::new().reversed());
    let mut state = TableState::new().with_selected(Some(view.at));
    frame.render_stateful_widget(table, area, &mut state);
}

fn cells(view: &View, name: &LockName, row: &watch::Row, width: u16) -> Row<'static> {
    let span = |span: Option<Duration>| span.map_or_else(|| "-".to_owned(), in_seconds);
    let is_in_deadlock = view.deadlocks_of(name).next().is_some();
    let mark = if is_in_deadlock { DEADLOCK } else { "" };
    let cells: [String; COLUMNS.len()] = [
        format!("{mark}{}", escaped(name.as_str())),
        row.mode(),
        escaped(&row.holder()),
        span(row.held(view.now_ms)),
        span(row.left(view.now_ms)),
        row.status.waiting.to_string(),
        span(row.waited(view.now_ms)),
        escaped(&row.label()),
    ];
    let is_used = row.is_used();
    let shown = cells.into_iter().zip(&COLUMNS).filter(|(_, column)| width >= column.from_width);
    let row = Row::new(shown.map(|(cell, _)| cell));
    match (is_in_deadlock, is_used) {
        (true, _) => row.bold().red(),
        (false, true) => row,
        (false, false) => row.dim(),
    }
}

/// Draws the holders and the waiters of a lock, as `show` prints them.
fn draw_details(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let Some((name, row)) = view.chosen() else { return };
    let unreadable = row.unreadable.iter().map(|why| escaped(&why.to_string()));
    // The words say which client waits for which.
    let circle = |words: &str| format!("! probably a deadlock: {}. r ends it", escaped(words));
    let circles = view.deadlocks_of(name).map(|words| circle(words));
    let words = std::iter::once(escaped(name.as_str())).chain(unreadable).chain(circles);
    let words = words.collect::<Vec<_>>().join("\n");
    // The queue may be long, so it gets at least half of the height.
    let height =
        words.lines().map(|words| 1 + words.chars().count() / usize::from(area.width.max(1)));
    let height = height.sum::<usize>().min(usize::from(area.height / 2));
    let height = Constraint::Length(u16::try_from(height).unwrap_or(0));
    let words = Paragraph::new(words).wrap(Wrap { trim: true }).bold();
    let [head, queue] = Layout::vertical([height, Constraint::Fill(1)]).areas(area);
    frame.render_widget(words, head);
    let tables = tables(name, &row.status, row.seen_ms, Some(area.width.into()));
    frame.render_widget(Paragraph::new(tables), queue);
}
