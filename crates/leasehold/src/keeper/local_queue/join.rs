//! Callers come and go.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{Error, HolderId, Instant, LockName, Result, StoreError};
use tokio::sync::oneshot;

use crate::keeper::due_queue::DueQueue;
use crate::keeper::handoff::Handoff;
use crate::keeper::lease::{Attempt, Terms, Ticket};
use crate::keeper::state::{
    Ask, Behind, Cleanup, Head, Held, Keeper, Left, Line, LocalQueue, LocalQueues, PendingRelease,
    Step, Table, Turn, Waiter, Wakeup,
};

/// How long the first caller of a line may ask without a sign of life while others are behind it: 2
/// s, as long as a store waits until a grant is claimed.
const FRONT_PATIENCE: Duration = CLAIM_WINDOW;

impl Keeper {
    /// Registers an attempt if it stands in line or is about to be sent, unless the client is
    /// closed. Makes sure that something drives this keeper and, if the attempt `waits`, opens its
    /// inbox. A caller that is the first in line and comes with its next attempt keeps its place.
    pub(crate) fn join(
        self: &Arc<Self>,
        attempt: &mut Attempt,
        waits: bool,
        now: Instant,
    ) -> Result<Step> {
        let (step, was_running) = {
            let mut table = self.table();
            if table.closed {
                return Err(Error::Closed);
            }
            if waits && !mem::replace(&mut table.wants_inbox, true) {
                self.wake.notify_one();
            }
            let step = self.find_place(&mut table, attempt, waits, now);
            self.wake_for_queues(&mut table);
            (step, mem::replace(&mut table.running, true))
        };
        if !was_running {
            let Attempt { name, ticket, request, .. } = &*attempt;
            self.start().inspect_err(|_| {
                self.leave(name, *ticket, request.id);
            })?;
        }
        Ok(step)
    }

    fn find_place(
        self: &Arc<Self>,
        table: &mut Table,
        attempt: &mut Attempt,
        waits: bool,
        now: Instant,
    ) -> Step {
        let before = attempt.ticket.take();
        let queues = &mut table.queues;
        let Some(terms) = queues.terms(attempt) else { return queues.ask(attempt) };
        let ticket = queues.draw();
        let Some(line) = line(&mut queues.by_name, &attempt.name) else {
            if waits {
                attempt.ticket = Some(ticket);
                let head =
                    Head::Asking { front: ticket, attempt: Some(attempt.request.id), seen: now };
                queues.open_line(&attempt.name, Line::new(terms, head));
            }
            return queues.ask(attempt);
        };
        if line.terms != terms {
            return queues.ask(attempt);
        }
        match &mut line.head {
            Head::Asking { front, attempt: asked, seen } if before == Some(*front) => {
                (*asked, *seen, attempt.ticket) = (Some(attempt.request.id), now, before);
                queues.ask(attempt)
            }
            Head::LetGo => self.after_let_go(table, attempt, waits.then_some(ticket), now),
            _ if !waits => Step::Busy,
            head => {
                let (first, own) = match *head {
                    Head::Held { id, .. } if self.is_observed() => {
                        (0, table.leases.get(id).map(|own| own.token()))
                    }
                    Head::Held { .. } => (0, None),
                    Head::Asking { .. } | Head::LetGo => (1, None),
                };
                let ahead = u32::try_from(line.callers.len()).unwrap_or(u32::MAX);
                attempt.ticket = Some(ticket);
                let (waiter, turn) = Waiter::new(attempt);
                line.callers.insert(ticket, waiter);
                queues.watch(&attempt.name);
                let behind = Some(Behind { ahead: ahead.saturating_add(first), own });
                Step::Wait { turn, behind }
            }
        }
    }

    /// Handles a caller that comes just after the lease was dropped: the caller gets that lease, or
    /// releases it before asking for another one.
    fn after_let_go(
        self: &Arc<Self>,
        table: &mut Table,
        attempt: &mut Attempt,
        ticket: Option<Ticket>,
        now: Instant,
    ) -> Step {
        let queues = &mut table.queues;
        let line = line(&mut queues.by_name, &attempt.name);
        let kept = line.and_then(|line| Some((line.let_go.take()?, line)));
        let Some((mut kept, line)) = kept else {
            return queues.ask(attempt); // unreachable: `LetGo` has a lease
        };
        let is_valid = kept.renewing.valid_until() > now || bugs::is_on(Bug::LocalHandOffTooLate);
        let is_passed = now < kept.slice_until && is_valid;
        let next = is_passed.then(|| kept.state.passed_on(attempt.options.clone(), now));
        if let Some(state) = next.flatten() {
            line.head = Head::Held { id: state.id, slice_until: kept.slice_until };
            state.mark_delivered(now);
            // The answer to a renewal may have come while nobody had the lease.
            kept.renewing.resume(now);
            let due = table.leases.add(Arc::clone(&state), kept.renewing, Handoff::Done);
            // The release of the lease is not sent.
            table.unfinished -= 1;
            self.wake_by(table, due);
            return Step::Held(Held { keeper: Arc::clone(self), state });
        }
        match ticket {
            Some(front) => {
                attempt.ticket = ticket;
                line.head = Head::Asking { front, attempt: Some(attempt.request.id), seen: now };
            }
            None => queues.close_line(&attempt.name),
        }
        let mut step = queues.ask(attempt);
        if let Step::Ask(ask) = &mut step {
            (ask.yields, ask.release) = (true, Some(self.leave_release(table, kept, now)));
        }
        step
    }

    /// Gives up the place of a caller, and its attempt if nobody else uses it.
    pub(crate) fn leave(&self, name: &LockName, ticket: Option<Ticket>, id: HolderId) -> Left {
        let now = self.store.now();
        let (left, wakeup) = {
            let mut table = self.table();
            let left = table.queues.leave(name, ticket, id, now);
            self.wake_for_queues(&mut table);
            left
        };
        wakeup.deliver();
        left
    }

    /// Gives up the attempt of a caller; the caller keeps its place in line. Returns false if the
    /// attempt no longer belongs to this caller.
    pub(crate) fn withdraw(&self, attempt: &Attempt) -> bool {
        let mut table = self.table();
        let is_own = table.queues.take_of(attempt.request.id, attempt.ticket).is_some();
        if is_own {
            // This does not count as a sign of life of the caller.
            table.queues.gone(&attempt.name, attempt.request.id, Instant::default());
            self.wake_for_queues(&mut table);
        }
        is_own
    }

    /// Records a sign of life, if the caller still asks for its line; otherwise returns `None`. The
    /// result includes the release of the line's last lease, if nobody has sent it yet.
    pub(crate) fn shows_life(
        self: &Arc<Self>,
        attempt: &Attempt,
    ) -> Option<Option<PendingRelease>> {
        let Some(ticket) = attempt.ticket else { return Some(None) };
        let now = self.store.now();
        let mut table = self.table();
        let line = line(&mut table.queues.by_name, &attempt.name)?;
        let kept = match &mut line.head {
            Head::Asking { front, seen, .. } if *front == ticket => {
                *seen = now;
                line.let_go.take()
            }
            _ => return None,
        };
        Some(kept.map(|kept| self.leave_release(&mut table, kept, now)))
    }

    /// Fails all callers behind the first in line: the store's answer to the first concerns them,
    /// too.
    pub(crate) fn fail_line(&self, attempt: &Attempt, error: &StoreError) {
        let behind = self.table().queues.take_behind(&attempt.name, attempt.ticket);
        behind.into_iter().for_each(|waiter| waiter.fail(error));
    }
}

impl Waiter {
    pub(in crate::keeper) fn new(attempt: &Attempt) -> (Self, oneshot::Receiver<Turn>) {
        let (sender, turn) = oneshot::channel();
        // The attempt is about to be sent, and is then unanswered at first.
        let attempt = Attempt { unanswered: true, ..attempt.clone() };
        let waiter =
            Self { attempt, turn: sender, sequence: None, in_flight: false, is_announced: false };
        (waiter, turn)
    }

    pub(in crate::keeper) fn fail(self, error: &StoreError) {
        let same = error.clone().not_executed();
        // The send fails if the caller has given up.
        let _ = self.turn.send(Err(same));
    }
}

impl Wakeup {
    /// Sends the message. If the caller has just gone, it leaves the line itself, and the drop of
    /// the message releases the lease in it.
    pub(in crate::keeper) fn deliver(self) {
        drop(self.replaced);
        if let Some((to, step)) = self.turn {
            let _ = to.send(Ok(step));
        }
    }
}

impl Line {
    pub(super) fn new(terms: Terms, head: Head) -> Self {
        let callers = Default::default();
        Self { terms, head, callers, let_go: None, is_listed: false, is_watched: false }
    }

    /// Makes the next caller in line the one that asks; returns `None` if there is none. That
    /// caller continues the attempt of the line, at the same place.
    pub(super) fn advance(
        &mut self,
        asking: &mut HashMap<HolderId, Waiter>,
        now: Instant,
        yields: bool,
    ) -> Option<Wakeup> {
        let (ticket, next) = self.callers.pop_first()?;
        let attempt = match self.head {
            Head::Asking { attempt, .. } => attempt,
            Head::Held { .. } | Head::LetGo => None,
        };
        let known = attempt.and_then(|id| asking.get_mut(&id));
        let is_known = known.is_some();
        let id = attempt.filter(|_| is_known).unwrap_or(next.attempt.request.id);
        self.head = Head::Asking { front: ticket, attempt: Some(id), seen: now };
        let (sender, turn) = oneshot::channel();
        let Some(waiter) = known else {
            let request = next.attempt.request.clone();
            let to = next.turn;
            asking.insert(id, Waiter { turn: sender, ..next });
            let ask = Ask { request, is_known, yields, release: None, turn };
            return Some(Wakeup { turn: Some((to, Step::Ask(ask))), replaced: None });
        };
        (waiter.attempt.ticket, waiter.attempt.is_taken_over) = (Some(ticket), true);
        waiter.attempt.options = next.attempt.options;
        if waiter.sequence.is_some() {
            // That caller only has to wait, which it does already.
            let replaced = Some(mem::replace(&mut waiter.turn, next.turn));
            return Some(Wakeup { turn: None, replaced });
        }
        waiter.attempt.unanswered = true;
        let replaced = Some(mem::replace(&mut waiter.turn, sender));
        let request = waiter.attempt.request.clone();
        let ask = Ask { request, is_known, yields, release: None, turn };
        Some(Wakeup { turn: Some((next.turn, Step::Ask(ask))), replaced })
    }

    /// The last sign of life of a first caller that asks while others are behind. `None` if the
    /// store has to answer next.
    fn asks_since(&self, asking: &HashMap<HolderId, Waiter>) -> Option<Instant> {
        let Head::Asking { attempt, seen, .. } = self.head else { return None };
        let waits = attempt.is_some_and(|id| {
            asking.get(&id).is_none_or(|waiter| waiter.sequence.is_some()) //
        });
        (!self.callers.is_empty() && !waits).then_some(seen)
    }
}

/// The line for a name.
pub(super) fn line<'a>(
    by_name: &'a mut HashMap<LockName, LocalQueue>,
    name: &LockName,
) -> Option<&'a mut Line> {
    by_name.get_mut(name)?.line.as_mut()
}

impl LocalQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_none() && self.places.is_none() && self.seat.is_none()
    }
}

impl LocalQueues {
    pub(in crate::keeper) fn new(seed: u64, slice: Duration) -> Self {
        Self {
            by_name: HashMap::new(),
            asking: HashMap::new(),
            slice,
            tickets: 0,
            let_go: Vec::new(),
            watched: DueQueue::new(),
            polled: DueQueue::new(),
            polls: Vec::new(),
            seats: DueQueue::new(),
            jitter: leasehold_core::backoff::Jitter::new(seed),
        }
    }

    pub(in crate::keeper) fn next_due(&self) -> Option<Instant> {
        let dues = [self.polled.first(), self.watched.first(), self.seats.first()];
        dues.into_iter().flatten().min()
    }

    /// The terms of the line in which an attempt may stand; `None` if it may stand in none.
    pub(super) fn terms(&self, attempt: &Attempt) -> Option<Terms> {
        if self.slice.is_zero() { None } else { Terms::of(attempt) }
    }

    fn draw(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    pub(super) fn open_line(&mut self, name: &LockName, line: Line) {
        self.by_name.entry(name.clone()).or_default().line = Some(line);
    }

    /// Removes a line.
    pub(super) fn close_line(&mut self, name: &LockName) {
        if let Some(queue) = self.by_name.get_mut(name) {
            queue.line = None;
            if queue.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    /// Ends a line in which no caller holds or asks.
    pub(super) fn end_line(&mut self, name: &LockName) {
        match line(&mut self.by_name, name) {
            Some(line) if line.let_go.is_some() => line.head = Head::LetGo,
            _ => self.close_line(name),
        }
    }

    /// The step of a caller that asks the store itself. Its attempt is registered, so that the end
    /// of the client cancels it.
    fn ask(&mut self, attempt: &Attempt) -> Step {
        let request = attempt.request.clone();
        let (waiter, turn) = Waiter::new(attempt);
        self.asking.insert(request.id, waiter);
        Step::Ask(Ask { request, is_known: false, yields: false, release: None, turn })
    }

    fn leave(
        &mut self,
        name: &LockName,
        ticket: Option<Ticket>,
        mut id: HolderId,
        now: Instant,
    ) -> (Left, Wakeup) {
        if let (Some(ticket), Some(line)) = (ticket, line(&mut self.by_name, name)) {
            if let Some(own) = line.callers.remove(&ticket) {
                return (Left::PassedOn, Wakeup { turn: None, replaced: Some(own.turn) });
            }
            if let Head::Asking { front, attempt, .. } = line.head
                && front == ticket
            {
                if attempt.is_some_and(|id| !self.asking.contains_key(&id)) {
                    // The caller's grant is on its way.
                    return (Left::HadTurn, Wakeup::default());
                }
                if let Some(wakeup) = line.advance(&mut self.asking, now, false) {
                    self.watch(name);
                    return (Left::PassedOn, wakeup);
                }
                self.end_line(name);
                let Some(attempt) = attempt else { return (Left::PassedOn, Wakeup::default()) };
                id = attempt;
            }
        }
        let own = self.take_of(id, ticket);
        let replaced =
            own.as_ref().map(|own| (own.attempt.request.clone(), own.attempt.unanswered));
        let left = replaced
            .map_or(Left::HadTurn, |(request, unanswered)| Left::Own { request, unanswered });
        (left, Wakeup { turn: None, replaced: own.map(|own| own.turn) })
    }

    /// Takes out the waiter with this attempt, if the waiter belongs to the caller with this place
    /// in line (`None`: to a caller without a place).
    fn take_of(&mut self, id: HolderId, ticket: Option<Ticket>) -> Option<Waiter> {
        let is_own = self.asking.get(&id).is_some_and(|waiter| waiter.attempt.ticket == ticket);
        is_own.then(|| self.take(id)).flatten()
    }

    /// The store does not have the attempt of a line, or no longer has it: the first caller draws a
    /// new one.
    pub(in crate::keeper) fn gone(&mut self, name: &LockName, id: HolderId, now: Instant) {
        let head = line(&mut self.by_name, name).map(|line| &mut line.head);
        if let Some(Head::Asking { attempt, seen, .. }) = head
            && *attempt == Some(id)
        {
            (*attempt, *seen) = (None, (*seen).max(now));
            self.watch(name);
        }
    }

    /// Takes out the callers behind this one, because a store's answer concerns all callers that
    /// ask for the same lease.
    pub(in crate::keeper) fn take_behind(
        &mut self,
        name: &LockName,
        ticket: Option<Ticket>,
    ) -> Vec<Waiter> {
        match line(&mut self.by_name, name) {
            Some(Line { head: Head::Asking { front, .. }, callers, .. })
                if ticket == Some(*front) =>
            {
                mem::take(callers).into_values().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Ends all queues. Returns the waiters at the store, the callers in line, and the releases.
    pub(in crate::keeper) fn take_all(&mut self) -> (Vec<Waiter>, Vec<Waiter>, Vec<Cleanup>) {
        let (mut callers, mut cleanups) = (Vec::new(), Vec::new());
        for queue in self.by_name.values_mut() {
            queue.places = None;
            if let Some(line) = queue.line.take() {
                callers.extend(line.callers.into_values());
                cleanups.extend(line.let_go.map(|kept| *kept.cleanup));
            }
        }
        self.by_name.retain(|_, queue| !queue.is_empty());
        self.watched.clear();
        self.polled.clear();
        (self.asking.drain().map(|(_, waiter)| waiter).collect(), callers, cleanups)
    }

    // ---- patience with the first of a line

    /// Makes sure that the first caller of a line is skipped if it asks but is no longer polled.
    pub(super) fn watch(&mut self, name: &LockName) {
        let Some(line) = line(&mut self.by_name, name) else { return };
        if let Some(seen) = line.asks_since(&self.asking)
            && !mem::replace(&mut line.is_watched, true)
        {
            self.watched.insert(seen + FRONT_PATIENCE, name.clone());
        }
    }

    /// Skips the callers that have shown no sign of life while others are behind.
    pub(in crate::keeper) fn skip_silent(&mut self, now: Instant) -> Vec<Wakeup> {
        let mut wakeups = Vec::new();
        for name in self.watched.take_due(now) {
            let Some(line) = line(&mut self.by_name, &name) else { continue };
            line.is_watched = false;
            let since = line.asks_since(&self.asking);
            if since.is_some_and(|seen| seen + FRONT_PATIENCE <= now) {
                wakeups.extend(line.advance(&mut self.asking, now, false));
            }
            self.watch(&name);
        }
        wakeups
    }
}
