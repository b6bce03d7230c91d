//! The gate of a name: the callers of one client that want the same lease, one behind the other.
//!
//! Only the first caller asks the store. A lease that is released goes to the next caller without
//! the store, with a new token, for one slice. After that the client gives others their turn: the
//! release goes to the store, and the next caller asks for another lease. In either order of
//! arrival, it ends up behind the waiters at the store, or with a fresh grant if nobody waits. A
//! lease that is dropped is kept for the next caller until the keeper releases it.
//!
//! If the store has no queue, every caller stands here, so that one of them asks at a time.

use std::collections::{VecDeque, hash_map};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{Error, FencingToken, Instant, LockName, Result, StoreError};
use tokio::sync::oneshot;

use super::cleanup::LetGo;
use super::lease::{Attempt, Held, LeaseState};
use super::{Keeper, Map, Table};
use crate::store::Subscription;

/// How long a gate without callers is kept with its subscription: 2 s. A caller that takes turns
/// with others comes back immediately, and a new connection for each turn would cost more than the
/// turn.
const IDLE: Duration = Duration::from_secs(2);

/// The gates of one client.
#[derive(Debug)]
pub(super) struct Gates {
    by_name: Map<LockName, Gate>,
    /// The time for which a lease is passed on from caller to caller; zero if it never is.
    slice: Duration,
    /// Whether the store has queues.
    queued: bool,
    tickets: u64,
    /// The gates without callers, and until when they are kept.
    idle: VecDeque<(Instant, LockName)>,
}

/// The callers of one client that want one name. The gate exists while one of them asks or holds.
#[derive(Debug)]
struct Gate {
    /// The ttl of the lease that they want; `None` if it cannot be passed on.
    terms: Option<Duration>,
    head: Head,
    callers: VecDeque<Caller>,
    /// Made for the first call that polls.
    subscription: Option<SharedSubscription>,
}

/// What the first caller of a gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// It asks the store.
    Asking,
    /// It has the lease, or has just let it go.
    Held { by: u64, slice_until: Instant },
    /// There is no caller. The gate is kept until this time, with its subscription.
    Idle { until: Instant },
}

/// A caller behind the first.
#[derive(Debug)]
struct Caller {
    ticket: u64,
    attempt: Arc<Attempt>,
    turn: oneshot::Sender<Result<Turn, StoreError>>,
}

/// The subscription of the callers of a gate, at a store without queues.
#[derive(Clone, Default)]
struct SharedSubscription(Arc<tokio::sync::Mutex<Option<Box<dyn Subscription>>>>);

debug_as!(SharedSubscription => |_, f| f.write_str("SharedSubscription"));

/// The turn of a caller.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The call asks the store, perhaps as the first of a gate.
    Ask(Option<Front>),
    /// The call would not wait, and another caller has the name or waits for it.
    Busy,
    /// The lease was dropped a moment ago, or passed on.
    Held(Held),
}

/// The first place at a gate: its caller asks the store. If it is dropped, the next caller has it.
#[derive(Debug)]
pub(crate) struct Front {
    keeper: Arc<Keeper>,
    name: LockName,
    is_taken: bool,
}

/// A place behind the first. If it is dropped, it is empty.
#[derive(Debug)]
pub(crate) struct Waiting {
    keeper: Arc<Keeper>,
    name: LockName,
    ticket: u64,
    /// The number of callers ahead, and the lease that one of them has, for an observer.
    pub(crate) ahead: u32,
    pub(crate) own: Option<FencingToken>,
    pub(crate) turn: oneshot::Receiver<Result<Turn, StoreError>>,
}

/// The turn of a caller, which is sent once the table is not locked.
#[derive(Debug, Default)]
#[must_use = "somebody waits for it"]
pub(super) struct Wakeup(Option<(oneshot::Sender<Result<Turn, StoreError>>, Turn)>);

impl Wakeup {
    /// Sends the turn. If the caller has just gone, the drop of the turn serves the next one.
    pub(super) fn deliver(self) {
        if let Some((to, turn)) = self.0 {
            drop(to.send(Ok(turn)));
        }
    }
}

impl Keeper {
    /// Begins a call: registers its attempt, and decides whether it is its turn, or whether it
    /// stands behind other callers of its client.
    pub(crate) fn enter(
        self: &Arc<Self>,
        attempt: &Arc<Attempt>,
        waits: bool,
        now: Instant,
    ) -> Result<Result<Turn, Waiting>> {
        let (entry, was_running) = {
            let mut table = self.table();
            if table.closed {
                return Err(Error::Closed);
            }
            let entry = self.entry(&mut table, attempt, waits, now);
            if matches!(entry, Ok(Turn::Ask(_))) {
                table.register(attempt);
            }
            (entry, std::mem::replace(&mut table.running, true))
        };
        if !was_running {
            self.start().inspect_err(|_| self.unregister(attempt))?;
        }
        Ok(entry)
    }

    /// Registers the attempt of a call that had its turn, or that needs another number.
    pub(crate) fn register(self: &Arc<Self>, attempt: &Arc<Attempt>) -> Result<()> {
        self.ensure_running()?;
        let mut table = self.table();
        if table.closed {
            return Err(Error::Closed);
        }
        table.register(attempt);
        Ok(())
    }

    /// Forgets the attempt of a call that has ended without a lease.
    pub(crate) fn unregister(&self, attempt: &Attempt) {
        self.table().calls.remove(&attempt.number());
    }

    fn entry(
        self: &Arc<Self>,
        table: &mut Table,
        attempt: &Arc<Attempt>,
        waits: bool,
        now: Instant,
    ) -> Result<Turn, Waiting> {
        let gates = &mut table.gates;
        let terms = attempt.terms().filter(|_| !gates.slice.is_zero());
        if terms.is_none() && (gates.queued || !waits) {
            return Ok(Turn::Ask(None));
        }
        let Some(gate) = gates.by_name.get_mut(&attempt.name) else {
            if waits {
                gates.open(&attempt.name, terms, Head::Asking);
            }
            return Ok(Turn::Ask(waits.then(|| self.front(&attempt.name))));
        };
        if gate.terms != terms && (gates.queued || !waits) {
            return Ok(Turn::Ask(None));
        }
        if let Head::Idle { .. } = gate.head {
            (gate.head, gate.terms) = (Head::Asking, terms);
            return Ok(Turn::Ask(Some(self.front(&attempt.name))));
        }
        if let Head::Held { by, slice_until } = gate.head
            && let Some(let_go) = table.let_go.remove(&by)
        {
            let LetGo { state, renewing, cleanup } = let_go;
            let is_valid =
                state.signal.valid_until() > now || bugs::is_on(Bug::LocalHandOffTooLate);
            let next = (now < slice_until && is_valid).then(|| state.passed_on(attempt, now));
            if let Some(state) = next.flatten() {
                return Ok(Turn::Held(self.take_over(table, state, renewing, now)));
            }
            table.cleanups.push(cleanup);
            gate.head = Head::Asking;
            return Ok(Turn::Ask(Some(self.front(&attempt.name))));
        }
        if !waits {
            return Ok(Turn::Busy);
        }
        let own = match gate.head {
            Head::Held { by, .. } if self.is_observed() => table.leases.get(self.id(by)),
            Head::Asking | Head::Held { .. } | Head::Idle { .. } => None,
        };
        let own = own.map(|own| own.token());
        let asks = usize::from(gate.head == Head::Asking);
        let ahead = u32::try_from(gate.callers.len() + asks).unwrap_or(u32::MAX);
        gates.tickets += 1;
        let (ticket, (sender, turn)) = (gates.tickets, oneshot::channel());
        gate.callers.push_back(Caller { ticket, attempt: Arc::clone(attempt), turn: sender });
        let (keeper, name) = (Arc::clone(self), attempt.name.clone());
        Err(Waiting { keeper, name, ticket, ahead, own, turn })
    }

    fn front(self: &Arc<Self>, name: &LockName) -> Front {
        Front { keeper: Arc::clone(self), name: name.clone(), is_taken: false }
    }

    /// Serves the next caller of a gate that has no lease: it asks the store.
    /// `of` is the attempt whose lease has ended, if the gate had one.
    fn advance(self: &Arc<Self>, table: &mut Table, name: &LockName, of: Option<u64>) -> Wakeup {
        let hash_map::Entry::Occupied(mut place) = table.gates.by_name.entry(name.clone()) else {
            return Wakeup::default();
        };
        let gate = place.get_mut();
        if of.is_some_and(|of| !matches!(gate.head, Head::Held { by, .. } if by == of)) {
            return Wakeup::default();
        }
        if let Some(next) = gate.callers.pop_front() {
            gate.head = Head::Asking;
            return Wakeup(Some((next.turn, Turn::Ask(Some(self.front(name))))));
        }
        if of.is_some_and(|of| table.let_go.contains_key(&of)) {
            // A caller that comes may take the lease over.
            return Wakeup::default();
        }
        if table.gates.queued {
            place.remove();
        } else {
            let until = self.store.now() + IDLE;
            gate.head = Head::Idle { until };
            table.gates.idle.push_back((until, name.clone()));
            self.wake_by(table, until);
        }
        Wakeup::default()
    }

    /// Passes the lease of this guard on to the next caller, if there is one and the lease may be
    /// passed on.
    pub(super) fn pass_on(
        self: &Arc<Self>,
        table: &mut Table,
        state: &LeaseState,
        now: Instant,
    ) -> Option<Wakeup> {
        let gate = table.gates.by_name.get_mut(&state.name)?;
        let Head::Held { by, slice_until } = gate.head else { return None };
        if by != state.number() || now >= slice_until {
            return None;
        }
        let to = &gate.callers.front()?.attempt;
        let (next, due) = table.leases.pass_on(state, now, || state.passed_on(to, now))?;
        let caller = gate.callers.pop_front()?;
        self.wake_by(table, due);
        Some(Wakeup(Some((caller.turn, Turn::Held(self.held(next))))))
    }

    /// The lease of a gate has ended: the next caller asks for another one.
    pub(super) fn lease_ended(self: &Arc<Self>, table: &mut Table, state: &LeaseState) -> Wakeup {
        self.advance(table, &state.name, Some(state.number()))
    }
}

impl Table {
    fn register(&mut self, attempt: &Arc<Attempt>) {
        self.calls.insert(attempt.number(), Arc::clone(attempt));
    }

    /// The store has granted a lease to a caller, which has this place at its gate. The gate has
    /// the lease for one slice.
    ///
    /// A front that is left is for the caller to drop, once the table is not locked: then the next
    /// caller is served.
    pub(super) fn granted(&mut self, attempt: &Attempt, front: &mut Option<Front>, now: Instant) {
        let terms = attempt.terms().filter(|_| !self.gates.slice.is_zero());
        let Some(terms) = terms else { return };
        let (by, slice_until) = (attempt.number(), now + self.gates.slice);
        let head = Head::Held { by, slice_until };
        match front.take() {
            Some(front) => front.take(self, head),
            // A try has no place until it is granted.
            None if !self.gates.by_name.contains_key(&attempt.name) => {
                self.gates.open(&attempt.name, Some(terms), head);
            }
            None => {}
        }
    }
}

impl Gates {
    pub(super) fn new(slice: Duration, queued: bool) -> Self {
        Self { by_name: Map::default(), slice, queued, tickets: 0, idle: VecDeque::new() }
    }

    fn open(&mut self, name: &LockName, terms: Option<Duration>, head: Head) {
        let gate = Gate { terms, head, callers: VecDeque::new(), subscription: None };
        self.by_name.insert(name.clone(), gate);
    }

    /// When the first gate without callers is given up.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.idle.front().map(|(until, _)| *until)
    }

    /// Takes out the gates that nobody uses, because messages that nobody reads would pile up. They
    /// are dropped with the value.
    pub(super) fn take_due(&mut self, now: Instant) -> impl Sized + use<> {
        let mut unused = Vec::new();
        while self.next_due().is_some_and(|until| until <= now)
            && let Some((until, name)) = self.idle.pop_front()
        {
            if self.by_name.get(&name).is_some_and(|gate| gate.head == Head::Idle { until }) {
                unused.extend(self.by_name.remove(&name));
            }
        }
        unused
    }

    /// Takes out the callers behind the first of a gate: a store's answer concerns all of them.
    fn take_behind(&mut self, name: &LockName) -> Vec<Caller> {
        let gate = self.by_name.get_mut(name);
        gate.map(|gate| std::mem::take(&mut gate.callers).into()).unwrap_or_default()
    }

    /// Ends all gates. Returns what ends their callers when it is dropped.
    pub(super) fn close(&mut self) -> impl Sized + use<> {
        std::mem::take(&mut self.by_name)
    }
}

impl Front {
    /// The gate goes on with this head: nobody has to be served when this value is dropped.
    fn take(mut self, table: &mut Table, head: Head) {
        self.is_taken = true;
        if let Some(gate) = table.gates.by_name.get_mut(&self.name) {
            gate.head = head;
        }
    }

    /// Fails all callers behind this one: the store's answer concerns them, too.
    pub(crate) fn fail(&self, error: &StoreError) {
        let behind = self.keeper.table().gates.take_behind(&self.name);
        for caller in behind {
            // The send fails if the caller has given up.
            let _ = caller.turn.send(Err(error.clone().not_executed()));
        }
    }

    /// The subscription of the gate, at a store without queues.
    pub(crate) async fn subscription(
        &self,
    ) -> tokio::sync::OwnedMutexGuard<Option<Box<dyn Subscription>>> {
        let shared = {
            let mut table = self.keeper.table();
            let gate = table.gates.by_name.get_mut(&self.name);
            let shared = gate.map(|gate| gate.subscription.get_or_insert_default().clone());
            shared.unwrap_or_default()
        };
        shared.0.lock_owned().await
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if !self.is_taken {
            let wakeup = self.keeper.advance(&mut self.keeper.table(), &self.name, None);
            wakeup.deliver();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut table = self.keeper.table();
        if let Some(gate) = table.gates.by_name.get_mut(&self.name)
            && let Ok(at) = gate.callers.binary_search_by_key(&self.ticket, |caller| caller.ticket)
        {
            gate.callers.remove(at);
        }
    }
}
