//! The lines: callers of one client who want one name, one behind the other.
//!
//! The first of a line asks the store, and those behind it ask nobody. Its attempt belongs to the
//! line: whoever gives up leaves the place at the store to the next. A lease that is let go of is
//! passed on to the next without the store, with a token of its own, for one slice; after that the
//! line lets others have their turn, by a release and a new acquire that are sent together. That is
//! all a yield needs: both requests are the ones of always, and in whatever order they arrive, the
//! line ends up behind whoever waits there, or with a fresh grant where nobody does.
//!
//! Plain data: what is to be sent to a caller comes out as a [`Wakeup`], for after the lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::renewal::Renewing;
use leasehold_core::{HolderId, Instant, LeaseOptions, LockName, Mode, Renewal};
use tokio::sync::oneshot;

use super::cleanup::Cleanup;
use super::due_queue::DueQueue;
use super::leases::Leases;
use super::waiters::{Ask, Turn, Waiter, Waiters};
use crate::keeper::delivery::Delivery;
use crate::keeper::lease::LeaseState;
use crate::keeper::ticket::Ticket;

/// How long the first of a line may ask without a sign of life while others are behind it: 2 s, as
/// long as a store waits until a grant is claimed.
const FRONT_PATIENCE: Duration = CLAIM_WINDOW;

/// The lines of one client.
#[derive(Debug)]
pub(crate) struct Lines<L> {
    by_name: HashMap<LockName, Line<L>>,
    /// For how long a lease goes from hand to hand; zero where it never does.
    slice: Duration,
    tickets: u64,
    /// Lines whose first must show a sign of life.
    watched: DueQueue<LockName>,
    /// Lines with a release that the keeper has not taken yet.
    let_go: Vec<LockName>,
}

/// It exists while somebody of it holds or asks.
#[derive(Debug)]
struct Line<L> {
    terms: Terms,
    head: Head,
    callers: BTreeMap<Ticket, Waiter<L>>,
    let_go: Option<KeptForNext>,
    is_listed: bool,
    is_watched: bool,
}

/// What all of a line ask for. Whoever wants anything else asks the store himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    ttl: Duration,
    min_validity: Option<Duration>,
}

/// What a line has.
#[derive(Clone, Copy, Debug)]
enum Head {
    /// Its first asks, with an attempt that is a waiter of this client, or draws one.
    Asking { front: Ticket, attempt: Option<HolderId>, seen: Instant },
    /// A lease, in somebody's hands.
    Held { id: HolderId, slice_until: Instant },
    /// A lease that was dropped, and whose release nobody has sent yet.
    LetGo,
}

/// A lease that was dropped with nobody in line.
#[derive(Debug)]
struct KeptForNext {
    state: Arc<LeaseState>,
    renewing: Renewing,
    slice_until: Instant,
    cleanup: Box<Cleanup>,
}

/// How a call begins.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It asks the store, after `release` or together with it.
    Asks { ticket: Option<Ticket>, release: Option<Box<Cleanup>> },
    /// It is behind others of its client, so many of them, the first of whom holds `own` or asks.
    Behind { ticket: Ticket, ahead: u32, own: Option<HolderId> },
    /// It would not wait, and somebody of its client holds or awaits the name.
    Busy,
    /// What somebody of its client has just let go of is its own.
    TakenOver { state: Arc<LeaseState>, due: Instant },
}

/// What is left of a place that a caller gives up.
#[derive(Debug)]
pub(crate) enum Left<L> {
    /// Its attempt is nobody else's: it is cancelled, if the store may know it.
    Own(Box<Waiter<L>>),
    /// The line goes on without it.
    PassedOn(Wakeup<L>),
    /// None: it has had its turn, or was skipped.
    HadTurn,
}

/// A lease in new hands, and where it is sent.
#[derive(Debug)]
pub(crate) struct Passed<L> {
    pub(crate) state: Arc<LeaseState>,
    pub(crate) turn: oneshot::Sender<Turn<L>>,
    /// When the keeper has to look.
    pub(crate) due: Instant,
}

/// What is sent to a caller, and dropped, once no lock is held.
#[derive(Debug)]
#[must_use = "somebody waits for it"]
pub(crate) struct Wakeup<L> {
    turn: Option<(oneshot::Sender<Turn<L>>, Turn<L>)>,
    /// Where nothing is sent any more: dropping it may wake its caller.
    replaced: Option<oneshot::Sender<Turn<L>>>,
}

impl<L> Wakeup<L> {
    pub(super) const NONE: Self = Self { turn: None, replaced: None };

    /// Sends it. If the caller has gone in this moment, it leaves the line itself.
    pub(crate) fn deliver(self) {
        drop(self.replaced);
        if let Some((to, turn)) = self.turn {
            let _ = to.send(turn);
        }
    }
}

impl Terms {
    /// Those of a call that may stand in line: what limits how long something is held, or leaves
    /// renewals to its holder, is about one grant.
    fn of(mode: Mode, options: &LeaseOptions) -> Option<Self> {
        let LeaseOptions { ttl, renewal, min_validity, max_hold, min_hold, .. } = *options;
        let joins = mode == Mode::Exclusive
            && renewal == Renewal::Auto
            && max_hold.is_none()
            && min_hold.is_none();
        joins.then_some(Self { ttl, min_validity })
    }
}

impl<L> Line<L> {
    fn new(terms: Terms, head: Head) -> Self {
        let callers = BTreeMap::new();
        Self { terms, head, callers, let_go: None, is_listed: false, is_watched: false }
    }

    /// The first of those behind asks from now on; `None` if there is nobody. What was asked for
    /// goes on: the same attempt, at the same place.
    fn advance(
        &mut self,
        waiters: &mut Waiters<L>,
        now: Instant,
        yields: bool,
    ) -> Option<Wakeup<L>> {
        let (ticket, mut next) = self.callers.pop_first()?;
        let attempt = match self.head {
            Head::Asking { attempt, .. } => attempt,
            Head::Held { .. } | Head::LetGo => None,
        };
        let known = attempt.and_then(|id| waiters.get_mut(id));
        let is_known = known.is_some();
        let id = attempt.filter(|_| is_known).unwrap_or(next.id);
        self.head = Head::Asking { front: ticket, attempt: Some(id), seen: now };
        let Some(waiter) = known else {
            let (sender, turn) = oneshot::channel();
            let ask = Ask { id, nonce: next.nonce, is_known, yields, turn };
            let to = std::mem::replace(&mut next.turn, sender);
            waiters.add(next);
            return Some(Wakeup { turn: Some((to, Turn::Ask(ask))), replaced: None });
        };
        waiter.ticket = Some(ticket);
        waiter.options = next.options;
        if waiter.is_queued() {
            // It has only to wait, as it does.
            let replaced = Some(std::mem::replace(&mut waiter.turn, next.turn));
            return Some(Wakeup { turn: None, replaced });
        }
        let (sender, turn) = oneshot::channel();
        waiter.unanswered = true;
        let replaced = Some(std::mem::replace(&mut waiter.turn, sender));
        let ask = Ask { id, nonce: waiter.nonce, is_known, yields, turn };
        Some(Wakeup { turn: Some((next.turn, Turn::Ask(ask))), replaced })
    }
}

impl<L> Lines<L> {
    pub(super) fn new(slice: Duration) -> Self {
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

    fn terms(&self, joins: bool, mode: Mode, options: &LeaseOptions) -> Option<Terms> {
        if joins && !self.slice.is_zero() { Terms::of(mode, options) } else { None }
    }

    fn draw(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    // ---- callers come and go

    /// Makes a call known that asks the store, or that takes its place in line. The next attempt of
    /// the first in line keeps that place. Only one that `waits` is a waiter.
    pub(super) fn begin(
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
        let Some((kept, line)) = kept else {
            return asks(waiters, waiter, ticket.is_some(), None); // unreachable: it has one
        };
        let least = waiter.options.least_validity();
        let is_passed =
            now < kept.slice_until && kept.renewing.valid_until().saturating_since(now) > least;
        let next =
            is_passed.then(|| kept.state.passed_on(waiter.options.clone(), now).map(Arc::new));
        if let Some(state) = next.flatten() {
            line.head = Head::Held { id: state.id, slice_until: kept.slice_until };
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
    pub(super) fn leave(
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
    pub(super) fn withdraw(
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

    // ---- leases come and go

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
    pub(super) fn pass_on(
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
    pub(super) fn keep_for_next(
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

    /// A line has its lease no more: the next asks for another one. It `yields` if it had that for
    /// a slice.
    pub(super) fn lease_ended(
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

    /// Nobody of a line holds or asks any more.
    fn end(&mut self, name: &LockName) {
        if let Some(line) = self.by_name.get_mut(name)
            && line.let_go.is_some()
        {
            line.head = Head::LetGo;
        } else {
            self.by_name.remove(name);
        }
    }

    /// Takes out the releases that nobody has taken: the keeper sends them now.
    pub(super) fn take_let_go(&mut self) -> Vec<Cleanup> {
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

    // ---- the first in line lives

    /// Sees to it that the first of a line is skipped when it asks and is not polled any more.
    fn watch(&mut self, waiters: &Waiters<L>, name: &LockName) {
        let Some(line) = self.by_name.get_mut(name) else { return };
        if let Some(seen) = line.asks_since(waiters)
            && !std::mem::replace(&mut line.is_watched, true)
        {
            self.watched.insert(seen + FRONT_PATIENCE, name.clone());
        }
    }

    /// Skips whoever has shown no sign of life while others are behind.
    pub(super) fn take_due(&mut self, waiters: &mut Waiters<L>, now: Instant) -> Vec<Wakeup<L>> {
        let mut wakeups = Vec::new();
        for name in self.watched.take_due(now) {
            let Some(line) = self.by_name.get_mut(&name) else { continue };
            line.is_watched = false;
            if line.asks_since(waiters).is_some_and(|seen| seen + FRONT_PATIENCE <= now) {
                wakeups.extend(line.advance(waiters, now, false));
            }
            self.watch(waiters, &name);
        }
        wakeups
    }
}

impl<L> Line<L> {
    /// Since when its first asks while others are behind, unless it is the store's turn to speak.
    fn asks_since(&self, waiters: &Waiters<L>) -> Option<Instant> {
        let Head::Asking { attempt, seen, .. } = self.head else { return None };
        let waits = match attempt {
            None => false,
            Some(id) => waiters.get(id).is_none_or(Waiter::is_queued),
        };
        (!self.callers.is_empty() && !waits).then_some(seen)
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
