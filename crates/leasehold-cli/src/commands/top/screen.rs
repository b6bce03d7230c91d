//! Draws the table, and the windows over it.

use std::time::Duration;

use leasehold::admin::Deadlock;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::view::{Mode, View};
use crate::commands::lock_line::LockLine;
use crate::commands::status_view::{mode, state};
use crate::commands::totals::{away_in_words, in_seconds};
use crate::report::escaped;
use crate::watch::{Bar, History, SPAN_MS};

/// The least height at which there is room for a plot.
const PLOT_FROM: u16 = 14;

/// The columns, each with the least width of the terminal at which it is shown.
const COLUMNS: [Column; 9] = [
    Column { title: "NAME", width: Constraint::Fill(3), from_width: 0 },
    Column { title: "MODE", width: Constraint::Length(5), from_width: 60 },
    Column { title: "HOLDER", width: Constraint::Fill(2), from_width: 0 },
    Column { title: "HELD", width: Constraint::Length(7), from_width: 0 },
    Column { title: "LEFT", width: Constraint::Length(6), from_width: 60 },
    Column { title: "WAITING", width: Constraint::Length(7), from_width: 0 },
    Column { title: "LONGEST", width: Constraint::Length(7), from_width: 60 },
    Column { title: "ENTRIES/S", width: Constraint::Length(9), from_width: 72 },
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

const HELP: [&str; 13] = [
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
    "The plot: who held the lock under the cursor in the last minutes, and how many waited.",
];

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let plot = if frame.area().height >= PLOT_FROM { 4 } else { 0 };
    let parts = [1, 1, plot, 1].map(Constraint::Length);
    let [head, body, plot, foot] =
        Layout::vertical([parts[0], Constraint::Fill(1), parts[2], parts[3]]).areas(frame.area());
    frame.render_widget(heading(view), head);
    match view.mode {
        Mode::Details => draw_details(frame, view, body),
        Mode::Help => frame.render_widget(Paragraph::new(HELP.map(Text::from).to_vec()), body),
        Mode::Table | Mode::Filter | Mode::Revoke { .. } => draw_table(frame, view, body),
    }
    if let Some(line) = view.chosen().filter(|_| plot.height > 0) {
        draw_plot(frame, line, view.now_ms, plot);
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
        (Mode::Filter, _) => Text::from(format!("/{}_", escaped(&view.filter))),
        (Mode::Revoke { name, token, holder }, _) => {
            let (name, holder) = (escaped(name.as_str()), escaped(holder));
            let question = format!("revoke {name} from {holder}, token {token}? y / any other key");
            Text::from(question).bold()
        }
        (_, Some(message)) => Text::from(escaped(message)).bold(),
        (Mode::Table | Mode::Details | Mode::Help, None) if view.filter.is_empty() => {
            Text::from(KEYS).dim()
        }
        (Mode::Table | Mode::Details | Mode::Help, None) => {
            Text::from(format!("only with {:?}; Esc for all", view.filter)).dim()
        }
    }
}

fn draw_table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    if view.lines.is_empty() {
        let words = match (view.is_whole, view.filter.as_str()) {
            (false, "") => "no lock found yet",
            (false, _) => "no lock with that text found yet",
            (true, "") => "no lock is held or awaited",
            (true, _) => "no lock has that text",
        };
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let shown: Vec<_> = COLUMNS.iter().map(|column| area.width >= column.from_width).collect();
    let columns = COLUMNS.iter().zip(&shown).filter_map(|(column, shown)| shown.then_some(column));
    let titles = columns.clone().map(|column| match column.title == view.sort.title() {
        true => Cell::from(column.title).underlined(),
        false => Cell::from(column.title),
    });
    let header = Row::new(titles).bold();
    let rows = view.lines.iter().map(|line| row(view, line, &shown));
    let table = Table::new(rows, columns.map(|column| column.width))
        .header(header)
        .row_highlight_style(Style::new().reversed());
    let mut state = TableState::new().with_selected(Some(view.at));
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(view: &View, line: &LockLine, shown: &[bool]) -> Row<'static> {
    let span = |span: Option<Duration>| span.map_or_else(|| "-".to_owned(), in_seconds);
    let is_in_deadlock = view.deadlocks_of(&line.name).next().is_some();
    let mark = if is_in_deadlock { DEADLOCK } else { "" };
    let cells: [String; COLUMNS.len()] = [
        format!("{mark}{}", escaped(line.name.as_str())),
        line.mode(),
        escaped(&line.holder()),
        span(line.held),
        span(line.left),
        line.row.status.waiting.to_string(),
        span(line.waited),
        format!("{:.1}", line.per_second),
        escaped(&line.label()),
    ];
    let cells = cells.into_iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell));
    let row = Row::new(cells);
    match (is_in_deadlock, line.row.is_used()) {
        (true, _) => row.bold().red(),
        (false, true) => row,
        (false, false) => row.dim(),
    }
}

/// Draws the holders and the waiters of a lock.
fn draw_details(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let Some(line) = view.chosen() else { return };
    let who = |host: &str, pid: u32| escaped(&format!("{host}:{pid}"));
    let label = |label: &Option<String>| escaped(label.as_deref().unwrap_or_default());
    let holders = line.row.status.holders.iter().map(|holder| {
        Row::new([
            state(holder.state).to_owned(),
            mode(holder.mode),
            who(&holder.info.host, holder.info.pid),
            in_seconds(holder.held_for),
            holder.token.to_string(),
            label(&holder.info.label),
        ])
    });
    let waiters = line.row.status.waiters.iter().map(|waiter| {
        Row::new([
            format!("{}. in the queue", waiter.position),
            mode(waiter.mode),
            who(&waiter.info.host, waiter.info.pid),
            in_seconds(waiter.waited),
            String::new(),
            label(&waiter.info.label),
        ])
    });
    let widths = [
        Constraint::Length(15),
        Constraint::Length(9),
        Constraint::Fill(2),
        Constraint::Length(7),
        Constraint::Length(19),
        Constraint::Fill(1),
    ];
    let header = Row::new([
        escaped(line.name.as_str()),
        "MODE".to_owned(),
        "PROCESS".to_owned(),
        "SINCE".to_owned(),
        "TOKEN".to_owned(),
        "LABEL".to_owned(),
    ]);
    let unreadable = line.row.unreadable.iter().map(|why| escaped(&why.to_string()));
    let words = unreadable.chain(view.deadlocks_of(&line.name).map(in_a_circle));
    let words = words.collect::<Vec<_>>().join("\n");
    // The queue may be long, so it gets at least half of the height.
    let height =
        words.lines().map(|words| 1 + words.chars().count() / usize::from(area.width.max(1)));
    let height = height.sum::<usize>().min(usize::from(area.height / 2));
    let height = Constraint::Length(u16::try_from(height).unwrap_or(0));
    let words = Paragraph::new(words).wrap(Wrap { trim: true }).bold();
    let [circle, queue] = Layout::vertical([height, Constraint::Fill(1)]).areas(area);
    frame.render_widget(words, circle);
    frame.render_widget(Table::new(holders.chain(waiters), widths).header(header.bold()), queue);
}

/// A deadlock in words: which client waits for which, and the key that ends the deadlock.
fn in_a_circle(deadlock: &Deadlock) -> String {
    format!("! probably a deadlock: {}. r ends it", escaped(&deadlock.to_string()))
}

/// Draws who held a lock in the last minutes, and how many waited.
fn draw_plot(frame: &mut Frame<'_>, line: &LockLine, now_ms: u64, area: Rect) {
    let [title, bars, queue] = Layout::vertical([1, 1, 2].map(Constraint::Length)).areas(area);
    let minutes = SPAN_MS / 60_000;
    let name = escaped(line.name.as_str());
    let words = format!("{name}: holders and waiters of the last {minutes} minutes");
    frame.render_widget(Text::from(words).dim(), title);
    let moments: Vec<u64> = moments(area.width, now_ms).collect();
    frame.render_widget(Text::from(holds(&line.row.history, &moments)), bars);
    let waiting = moments.iter().map(|at_ms| u64::from(waiting_at(&line.row.history, *at_ms)));
    frame.render_widget(Sparkline::default().data(waiting), queue);
}

/// The point in time of each column of a plot.
fn moments(columns: u16, now_ms: u64) -> impl Iterator<Item = u64> {
    let (columns, begin_ms) = (u64::from(columns.max(1)), now_ms.saturating_sub(SPAN_MS));
    (1..=columns).map(move |column| begin_ms + SPAN_MS * column / columns)
}

/// A character for each column: no holder, a hold that has begun since the column before, or a hold
/// that continues.
fn holds(history: &History, moments: &[u64]) -> String {
    let holder_at = |at_ms: u64| {
        let lasts = |bar: &&Bar| bar.from_ms <= at_ms && bar.to_ms.is_none_or(|to| to > at_ms);
        history.bars.iter().find(lasts).map(|bar| bar.token)
    };
    let mut before = None;
    let columns = moments.iter().map(|at_ms| {
        let holder = holder_at(*at_ms);
        let goes_on = std::mem::replace(&mut before, holder) == holder;
        match (holder, goes_on) {
            (None, _) => '·',
            (Some(_), false) => '▐',
            (Some(_), true) => '█',
        }
    });
    columns.collect()
}

fn waiting_at(history: &History, at_ms: u64) -> u32 {
    let before = history.queue.iter().rev().find(|(since_ms, _)| *since_ms <= at_ms);
    before.map_or(0, |(_, waiting)| *waiting)
}
