//! Callers come and go.

use std::sync::Arc;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{HolderId, Instant, LockName};

use super::by_name::Lines;
use super::line::{Head, Line};
use super::outcome::{Begun, Left, Wakeup};
use crate::keeper::delivery::Delivery;
use crate::keeper::table::cleanup::Cleanup;
use crate::keeper::table::leases::Leases;
use crate::keeper::table::waiters::{Waiter, Waiters};
use crate::keeper::ticket::Ticket;

impl<L> Lines<L> {
    /// Makes a call known that asks the store, or that takes its place in line. The next attempt of
    /// the first in line keeps that place. Only one that `waits` is a waiter.
    pub(crate) fn begin(
        &mut self,
        waiters: &mut Waiters<L>,
        leases: &mut Leases,
        mut waiter: Waiter<L>,
        waits: bool,
        now: Instant,
    ) -> Begun {
        let before = waiter.ticket.take();
        let terms = self.terms(waiter.joins, waiter.mode, &waiter.options);
        let ticket = self.draw();
        let Some(terms) = terms else { return asks(waiters, waiter, waits, None) };
        let Some(line) = self.by_name.get_mut(&waiter.name) else {
            if waits {
                waiter.ticket = Some(ticket);
                let head = Head::Asking { front: ticket, attempt: Some(waiter.id), seen: now };
                self.by_name.insert(waiter.name.clone(), Line::new(terms, head));
            }
            return asks(waiters, waiter, waits, None);
        };
        if line.terms != terms {
            return asks(waiters, waiter, waits, None);
        }
        match &mut line.head {
            Head::Asking { front, attempt, seen } if before == Some(*front) => {
                (*attempt, *seen, waiter.ticket) = (Some(waiter.id), now, before);
                asks(waiters, waiter, waits, None)
            }
            Head::LetGo => self.after_let_go(waiters, leases, waiter, waits.then_some(ticket), now),
            _ if !waits => Begun::Busy,
            head => {
                let (first, own) = match *head {
                    Head::Held { id, .. } => (0, Some(id)),
                    Head::Asking { .. } | Head::LetGo => (1, None),
                };
                let ahead = u32::try_from(line.callers.len()).unwrap_or(u32::MAX);
                waiter.ticket = Some(ticket);
                let name = waiter.name.clone();
                line.callers.insert(ticket, waiter);
                self.watch(waiters, &name);
                Begun::Behind { ticket, ahead: ahead.saturating_add(first), own }
            }
        }
    }

    /// A call for what was dropped just now: it has it, or releases it first.
    fn after_let_go(
        &mut self,
        waiters: &mut Waiters<L>,
        leases: &mut Leases,
        mut waiter: Waiter<L>,
        ticket: Option<Ticket>,
        now: Instant,
    ) -> Begun {
        let line = self.by_name.get_mut(&waiter.name);
        let kept = line.and_then(|line| Some((line.let_go.take()?, line)));
        let Some((mut kept, line)) = kept else {
            return asks(waiters, waiter, ticket.is_some(), None); // unreachable: it has one
        };
        let least = waiter.options.least_validity();
        let is_enough = kept.renewing.valid_until().saturating_since(now) > least
            || bugs::is_on(Bug::LocalHandOffTooLate);
        let is_passed = now < kept.slice_until && is_enough;
        let next =
            is_passed.then(|| kept.state.passed_on(waiter.options.clone(), now).map(Arc::new));
        if let Some(state) = next.flatten() {
            line.head = Head::Held { id: state.id, slice_until: kept.slice_until };
            state.mark_delivered(now);
            // It may have been answered while nobody had the lease.
            kept.renewing.resume(now);
            let due = leases.add(Arc::clone(&state), kept.renewing, Delivery::Done);
            return Begun::TakenOver { state, due };
        }
        match ticket {
            Some(front) => {
                waiter.ticket = ticket;
                line.head = Head::Asking { front, attempt: Some(waiter.id), seen: now };
            }
            None => drop(self.by_name.remove(&waiter.name)),
        }
        asks(waiters, waiter, ticket.is_some(), Some(kept.cleanup))
    }

    /// A caller gives up its place, and its attempt if that is nobody else's.
    pub(crate) fn leave(
        &mut self,
        waiters: &mut Waiters<L>,
        name: &LockName,
        ticket: Option<Ticket>,
        id: HolderId,
        now: Instant,
    ) -> Left<L> {
        let mut id = id;
        if let (Some(ticket), Some(line)) = (ticket, self.by_name.get_mut(name)) {
            if let Some(own) = line.callers.remove(&ticket) {
                return Left::PassedOn(Wakeup { turn: None, replaced: Some(own.turn) });
            }
            if let Head::Asking { front, attempt, .. } = line.head
                && front == ticket
            {
                if attempt.is_some_and(|id| waiters.get(id).is_none()) {
                    // Its grant is on its way.
                    return Left::HadTurn;
                }
                if let Some(wakeup) = line.advance(waiters, now, false) {
                    self.watch(waiters, name);
                    return Left::PassedOn(wakeup);
                }
                self.end(name);
                let Some(attempt) = attempt else { return Left::PassedOn(Wakeup::NONE) };
                id = attempt;
            }
        }
        waiters.take_of(id, ticket).map_or(Left::HadTurn, |own| Left::Own(Box::new(own)))
    }

    /// The first in line gives up its attempt, and draws another one.
    pub(crate) fn withdraw(
        &mut self,
        waiters: &mut Waiters<L>,
        name: &LockName,
        ticket: Option<Ticket>,
        id: HolderId,
    ) -> Option<Waiter<L>> {
        let own = waiters.take_of(id, ticket)?;
        // No sign of its life.
        self.gone(waiters, name, id, Instant::default());
        Some(own)
    }

    /// The attempt of a line is not known to the store (any more): its first draws another one.
    pub(crate) fn gone(
        &mut self,
        waiters: &Waiters<L>,
        name: &LockName,
        id: HolderId,
        now: Instant,
    ) {
        let head = self.by_name.get_mut(name).map(|line| &mut line.head);
        if let Some(Head::Asking { attempt, seen, .. }) = head
            && *attempt == Some(id)
        {
            (*attempt, *seen) = (None, (*seen).max(now));
            self.watch(waiters, name);
        }
    }

    /// Whether this is the first in line still, which shows that it lives; with the release of what
    /// the line had before, if nobody has sent that yet.
    pub(crate) fn show_life(
        &mut self,
        name: &LockName,
        ticket: Option<Ticket>,
        now: Instant,
    ) -> Option<Option<Box<Cleanup>>> {
        let Some(ticket) = ticket else { return Some(None) };
        let line = self.by_name.get_mut(name)?;
        match &mut line.head {
            Head::Asking { front, seen, .. } if *front == ticket => {
                *seen = now;
                Some(line.let_go.take().map(|kept| kept.cleanup))
            }
            _ => None,
        }
    }

    /// A store's answer concerns all who ask for this: gives those who are behind this one.
    pub(crate) fn take_behind(
        &mut self,
        name: &LockName,
        ticket: Option<Ticket>,
    ) -> Vec<Waiter<L>> {
        match self.by_name.get_mut(name) {
            Some(Line { head: Head::Asking { front, .. }, callers, .. })
                if ticket == Some(*front) =>
            {
                std::mem::take(callers).into_values().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Ends all lines; gives their callers and their releases.
    pub(crate) fn take_all(&mut self) -> (Vec<Waiter<L>>, Vec<Cleanup>) {
        let (mut callers, mut cleanups) = (Vec::new(), Vec::new());
        for (_, line) in self.by_name.drain() {
            callers.extend(line.callers.into_values());
            cleanups.extend(line.let_go.map(|kept| *kept.cleanup));
        }
        self.watched.clear();
        (callers, cleanups)
    }
}

/// A call that asks the store itself.
fn asks<L>(
    waiters: &mut Waiters<L>,
    waiter: Waiter<L>,
    waits: bool,
    release: Option<Box<Cleanup>>,
) -> Begun {
    let ticket = waiter.ticket;
    if waits {
        waiters.add(waiter);
    }
    Begun::Asks { ticket, release }
}
