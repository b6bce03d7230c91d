//! The lines of one client, each by its name.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::{Instant, LeaseOptions, LockName, Mode};

use super::line::{Head, Line, Terms};
use crate::keeper::table::due_queue::DueQueue;
use crate::keeper::ticket::Ticket;

/// The lines of one client.
#[derive(Debug)]
pub(crate) struct Lines<L> {
    pub(super) by_name: HashMap<LockName, Line<L>>,
    /// For how long a lease goes from hand to hand; zero where it never does.
    pub(super) slice: Duration,
    tickets: u64,
    /// Lines whose first must show a sign of life.
    pub(super) watched: DueQueue<LockName>,
    /// Lines with a release that the keeper has not taken yet.
    pub(super) let_go: Vec<LockName>,
}

impl<L> Lines<L> {
    pub(crate) fn new(slice: Duration) -> Self {
        Self {
            by_name: HashMap::new(),
            slice,
            tickets: 0,
            watched: DueQueue::new(),
            let_go: Vec::new(),
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.watched.first()
    }

    pub(super) fn terms(&self, joins: bool, mode: Mode, options: &LeaseOptions) -> Option<Terms> {
        if joins && !self.slice.is_zero() { Terms::of(mode, options) } else { None }
    }

    pub(super) fn draw(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Nobody of a line holds or asks any more.
    pub(super) fn end(&mut self, name: &LockName) {
        if let Some(line) = self.by_name.get_mut(name)
            && line.let_go.is_some()
        {
            line.head = Head::LetGo;
        } else {
            self.by_name.remove(name);
        }
    }
}
