//! The state of the screen, and the effect of keys on it.

use leasehold::LockName;
use leasehold::admin::LeaseId;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::commands::totals::totals_in_words;
use crate::watch::{Availability, Picture, Row, Selection};

/// By how many lines a page key moves the cursor.
const PAGE: isize = 10;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) store: String,
    /// The locks that are shown. A lock that was released a moment ago stays in its place.
    pub(super) selection: Selection,
    pub(super) mode: Mode,
    pub(super) rows: Vec<(LockName, Row)>,
    /// The row under the cursor.
    pub(super) at: usize,
    /// The totals of holders and waiters, in words.
    pub(super) totals: String,
    /// Whether everything was inspected at least once. Until then, a lock that is not listed may be
    /// held.
    pub(super) is_whole: bool,
    /// The names in each probable deadlock, and its words.
    pub(super) deadlocks: Vec<(Vec<LockName>, String)>,
    pub(super) availability: Availability,
    pub(super) now_ms: u64,
    /// The last answer, which is shown until a key is pressed.
    pub(super) message: Option<String>,
}

/// The modes of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Table,
    /// The user types a filter.
    Filter,
    /// The queue of the lock under the cursor is shown.
    Details,
    Help,
    /// The user is asked whether to revoke this hold.
    Revoke {
        name: LockName,
        lease: LeaseId,
        holder: String,
    },
}

/// An action outside of the view.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Quit,
    /// Stop this process, as Ctrl-Z does with other programs.
    Suspend,
    Revoke {
        name: LockName,
        lease: LeaseId,
    },
}

impl View {
    /// A view of the locks whose names have this prefix.
    pub(super) fn new(store: String, prefix: String) -> Self {
        Self {
            store,
            selection: Selection { prefix, has_free: true, ..Selection::default() },
            ..Self::default()
        }
    }

    /// Shows the present picture. The cursor stays on its lock.
    pub(super) fn refresh(&mut self, picture: &Picture, now_ms: u64) {
        let chosen = self.chosen().map(|(name, _)| name.clone());
        self.now_ms = now_ms;
        self.totals = totals_in_words(picture, now_ms);
        self.is_whole = picture.is_whole;
        self.availability = picture.store.clone();
        let deadlocks = picture.deadlocks().into_iter().map(|deadlock| {
            let names = deadlock.0.iter().map(|wait| wait.name.clone());
            (names.collect(), deadlock.to_string())
        });
        self.deadlocks = deadlocks.collect();
        let rows = picture.list(&self.selection).into_iter();
        self.rows = rows.map(|(name, row)| (name.clone(), row.clone())).collect();
        let at = chosen.and_then(|chosen| self.rows.iter().position(|(name, _)| *name == chosen));
        self.at = at.unwrap_or(self.at).min(self.rows.len().saturating_sub(1));
    }

    /// The row under the cursor.
    pub(super) fn chosen(&self) -> Option<&(LockName, Row)> {
        self.rows.get(self.at)
    }

    /// The words for the deadlocks in which somebody waits for this name.
    pub(super) fn deadlocks_of(&self, name: &LockName) -> impl Iterator<Item = &String> {
        let of_name = self.deadlocks.iter().filter(|(names, _)| names.contains(name));
        of_name.map(|(_, words)| words)
    }

    /// Handles a key, or another event of the terminal, and returns the action that it asks for.
    pub(super) fn typed(&mut self, event: &Event) -> Option<Demand> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            _ => None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Option<Demand> {
        self.message = None;
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Demand::Quit);
        }
        if is_control && key.code == KeyCode::Char('z') {
            return Some(Demand::Suspend);
        }
        match &self.mode {
            Mode::Table => return self.key_of_table(key.code),
            Mode::Filter => self.key_of_filter(key.code),
            Mode::Details => match key.code {
                KeyCode::Up | KeyCode::Down | KeyCode::Char('j' | 'k' | 'r') => {
                    return self.key_of_table(key.code);
                }
                _ => self.mode = Mode::Table,
            },
            Mode::Help => self.mode = Mode::Table,
            Mode::Revoke { name, lease, .. } => {
                let demand = Demand::Revoke { name: name.clone(), lease: *lease };
                self.mode = Mode::Table;
                return (key.code == KeyCode::Char('y')).then_some(demand);
            }
        }
        None
    }

    fn key_of_table(&mut self, key: KeyCode) -> Option<Demand> {
        match key {
            KeyCode::Char('q') => return Some(Demand::Quit),
            KeyCode::Esc => self.selection.text.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp | KeyCode::Char('b') => self.move_by(-PAGE),
            KeyCode::PageDown | KeyCode::Char(' ') => self.move_by(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => self.selection.order = self.selection.order.next(),
            KeyCode::Char('r') => self.ask_to_revoke(),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Enter if self.chosen().is_some() => self.mode = Mode::Details,
            _ => {}
        }
        None
    }

    fn key_of_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.selection.text.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Backspace => drop(self.selection.text.pop()),
            KeyCode::Char(character) => self.selection.text.push(character),
            _ => {}
        }
    }

    fn move_by(&mut self, lines: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(lines).min(last);
    }

    fn ask_to_revoke(&mut self) {
        let Some((name, row)) = self.chosen() else { return };
        match row.lease() {
            Some(lease) => {
                let (name, holder) = (name.clone(), row.holder());
                self.mode = Mode::Revoke { name, lease, holder };
            }
            None => {
                self.message = Some(format!("{name}: there is no lease of leasehold to revoke"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
