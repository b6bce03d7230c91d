//! How a lease comes to a line, is passed on within it, and leaves it.

use std::mem;
use std::sync::Arc;

use leasehold_core::renewal::Renewing;
use leasehold_core::{HolderId, Instant};

use super::join::line;
use crate::keeper::lease::{Attempt, LeaseState};
use crate::keeper::state::{
    Cleanup, Head, Held, Keeper, KeptForNext, Line, LocalQueues, Step, Table, Wakeup,
};

impl Keeper {
    /// Passes the lease of this guard on to the next in line, if there is one and the lease may be
    /// passed on. Returns the message to that caller, and when the lease is due.
    pub(in crate::keeper) fn pass_on(
        self: &Arc<Self>,
        table: &mut Table,
        state: &LeaseState,
        now: Instant,
    ) -> Option<(Wakeup, Instant)> {
        let line = line(&mut table.queues.by_name, &state.name)?;
        let Head::Held { id, slice_until } = line.head else { return None };
        if id != state.id || now >= slice_until || line.callers.is_empty() {
            return None;
        }
        let callers = &mut line.callers;
        let mut to = None;
        let (state, due) = table.leases.pass_on(state, now, || {
            let first = callers.first_entry()?;
            let next = state.passed_on(first.get().attempt.options.clone(), now)?;
            to = Some(first.remove().turn);
            Some(next)
        })?;
        let held = Held { keeper: Arc::clone(self), state };
        Some((Wakeup { turn: Some((to?, Step::Held(held))), replaced: None }, due))
    }
}

impl LocalQueues {
    /// Records that the store has granted a lease to a caller. The line of the caller has the lease
    /// for one slice.
    pub(in crate::keeper) fn granted(&mut self, attempt: &Attempt, now: Instant) {
        let Some(terms) = self.terms(attempt) else { return };
        let held = Head::Held { id: attempt.request.id, slice_until: now + self.slice };
        match line(&mut self.by_name, &attempt.name) {
            Some(line) => {
                if let Head::Asking { front, .. } = line.head
                    && attempt.ticket == Some(front)
                {
                    line.head = held;
                }
            }
            // A try has no place until it is granted.
            None => self.open_line(&attempt.name, Line::new(terms, held)),
        }
    }

    /// Keeps a lease that was let go, for a caller that comes before the keeper releases it.
    /// Returns true if the keeper must still be woken to release it. Returns the release as the
    /// error if the lease has no line.
    pub(in crate::keeper) fn keep_for_next(
        &mut self,
        state: &Arc<LeaseState>,
        renewing: Option<Renewing>,
        cleanup: Box<Cleanup>,
    ) -> Result<bool, Box<Cleanup>> {
        let line = line(&mut self.by_name, &state.name);
        let (Some(renewing), Some(line)) = (renewing, line) else { return Err(cleanup) };
        let Head::Held { id, slice_until } = line.head else { return Err(cleanup) };
        if id != state.id {
            return Err(cleanup);
        }
        let is_new = !mem::replace(&mut line.is_listed, true);
        if is_new {
            self.let_go.push(state.name.clone());
        }
        let state = Arc::clone(state);
        line.let_go = Some(KeptForNext { state, renewing, slice_until, cleanup });
        Ok(is_new)
    }

    /// Records that a lease which was let go has ended: no caller may take it over.
    pub(in crate::keeper) fn end_kept(&mut self, id: HolderId) {
        for name in &self.let_go {
            if let Some(line) = line(&mut self.by_name, name)
                && let Some(kept) = line.let_go.as_mut().filter(|kept| kept.state.id == id)
            {
                kept.slice_until = Instant::default();
            }
        }
    }

    /// Records that a line has lost its lease: the next caller asks for a new one. The line
    /// `yields` if it had the lease for a slice.
    pub(in crate::keeper) fn lease_ended(
        &mut self,
        state: &LeaseState,
        now: Instant,
        yields: bool,
    ) -> Wakeup {
        match line(&mut self.by_name, &state.name) {
            Some(line) if matches!(line.head, Head::Held { id, .. } if id == state.id) => {
                let wakeup = line.advance(&mut self.asking, now, yields);
                match wakeup {
                    Some(_) => self.watch(&state.name),
                    None => self.end_line(&state.name),
                }
                wakeup.unwrap_or_default()
            }
            _ => Wakeup::default(),
        }
    }

    /// Takes out the releases that nobody has taken: the keeper sends them now.
    pub(in crate::keeper) fn take_let_go(&mut self) -> Vec<Cleanup> {
        let mut cleanups = Vec::new();
        for name in mem::take(&mut self.let_go) {
            let Some(line) = line(&mut self.by_name, &name) else { continue };
            line.is_listed = false;
            cleanups.extend(line.let_go.take().map(|kept| *kept.cleanup));
            if matches!(line.head, Head::LetGo) {
                self.close_line(&name);
            }
        }
        cleanups
    }
}
