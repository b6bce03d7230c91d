//! Leases come and go.

use std::sync::Arc;

use leasehold_core::renewal::Renewing;
use leasehold_core::{HolderId, Instant};

use super::by_name::Lines;
use super::line::{Head, KeptForNext, Line};
use super::outcome::{Passed, Wakeup};
use crate::keeper::lease::LeaseState;
use crate::keeper::table::cleanup::Cleanup;
use crate::keeper::table::leases::Leases;
use crate::keeper::table::waiters::Waiters;
use crate::keeper::ticket::Ticket;

impl<L> Lines<L> {
    /// The store has granted what a caller asked for: a line has it for one slice.
    pub(crate) fn granted(
        &mut self,
        state: &LeaseState,
        joins: bool,
        ticket: Option<Ticket>,
        now: Instant,
    ) {
        let Some(terms) = self.terms(joins, state.mode(), &state.options) else { return };
        let held = Head::Held { id: state.id, slice_until: now + self.slice };
        match self.by_name.get_mut(&state.name) {
            Some(line) => {
                if let Head::Asking { front, .. } = line.head
                    && ticket == Some(front)
                {
                    line.head = held;
                }
            }
            // A try has no place until it is granted.
            None => {
                self.by_name.insert(state.name.clone(), Line::new(terms, held));
            }
        }
    }

    /// The lease of this guard goes to the next in line, if there is one and it may.
    pub(crate) fn pass_on(
        &mut self,
        leases: &mut Leases,
        state: &LeaseState,
        now: Instant,
    ) -> Option<Passed<L>> {
        let line = self.by_name.get_mut(&state.name)?;
        let Head::Held { id, slice_until } = line.head else { return None };
        if id != state.id || now >= slice_until || line.callers.is_empty() {
            return None;
        }
        let callers = &mut line.callers;
        let mut turn = None;
        let (state, due) = leases.pass_on(state, now, || {
            let first = callers.first_entry()?;
            let next = state.passed_on(first.get().options.clone(), now)?;
            turn = Some(first.remove().turn);
            Some(next)
        })?;
        Some(Passed { state, turn: turn?, due })
    }

    /// Keeps a lease that is let go of for whoever comes before the keeper releases it; true if
    /// the keeper does not know yet that there is something. Gives the release back if it is of no
    /// line.
    pub(crate) fn keep_for_next(
        &mut self,
        state: &Arc<LeaseState>,
        renewing: Option<Renewing>,
        cleanup: Box<Cleanup>,
    ) -> Result<bool, Box<Cleanup>> {
        let line = self.by_name.get_mut(&state.name);
        let (Some(renewing), Some(line)) = (renewing, line) else { return Err(cleanup) };
        let Head::Held { id, slice_until } = line.head else { return Err(cleanup) };
        if id != state.id {
            return Err(cleanup);
        }
        let is_new = !std::mem::replace(&mut line.is_listed, true);
        if is_new {
            self.let_go.push(state.name.clone());
        }
        let state = Arc::clone(state);
        line.let_go = Some(KeptForNext { state, renewing, slice_until, cleanup });
        Ok(is_new)
    }

    /// What was found out about a lease that was let go of: nobody takes it over.
    pub(crate) fn end_kept(&mut self, id: HolderId) {
        for name in &self.let_go {
            if let Some(line) = self.by_name.get_mut(name)
                && let Some(kept) = line.let_go.as_mut().filter(|kept| kept.state.id == id)
            {
                kept.slice_until = Instant::default();
            }
        }
    }

    /// A line has its lease no more: the next asks for another one. It `yields` if it had that for
    /// a slice.
    pub(crate) fn lease_ended(
        &mut self,
        waiters: &mut Waiters<L>,
        state: &LeaseState,
        now: Instant,
        yields: bool,
    ) -> Wakeup<L> {
        let Some(line) = self.by_name.get_mut(&state.name) else { return Wakeup::NONE };
        if !matches!(line.head, Head::Held { id, .. } if id == state.id) {
            return Wakeup::NONE;
        }
        match line.advance(waiters, now, yields) {
            Some(wakeup) => {
                self.watch(waiters, &state.name);
                wakeup
            }
            None => {
                self.end(&state.name);
                Wakeup::NONE
            }
        }
    }

    /// Takes out the releases that nobody has taken: the keeper sends them now.
    pub(crate) fn take_let_go(&mut self) -> Vec<Cleanup> {
        let mut cleanups = Vec::new();
        for name in std::mem::take(&mut self.let_go) {
            let Some(line) = self.by_name.get_mut(&name) else { continue };
            line.is_listed = false;
            cleanups.extend(line.let_go.take().map(|kept| *kept.cleanup));
            if matches!(line.head, Head::LetGo) {
                self.by_name.remove(&name);
            }
        }
        cleanups
    }
}
