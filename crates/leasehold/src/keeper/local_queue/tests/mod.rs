//! The local queues, without a store: whose turn it is, and what the caller gets.

mod join;
mod pass_on;
mod places;

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use leasehold_core::renewal::Renewing;
use leasehold_core::token::TOKEN_EPOCH_US;
use leasehold_core::{
    Action, Bounds, ClientId, End, FakeClock, FencingToken, Grant, HolderId, HolderInfo, Instant,
    LeaseOptions, LockName, Mode, Renewal, Request,
};
use tokio::sync::oneshot;

use crate::event::{Event, Observers};
use crate::keeper::handoff::Handoff;
use crate::keeper::keeping::LetGo;
use crate::keeper::lease::{Attempt, LeaseState, Ticket};
use crate::keeper::run::Due;
use crate::keeper::state::{Ask, Cleanup, Keeper, Left, Step, Table, Turn, Wakeup};
use crate::lost::Signal;
use crate::store::Memory;
use crate::store::clocked::ClockedStore;

const SLICE: Duration = Duration::from_millis(5);
const TTL: Duration = Duration::from_secs(30);

type Receiver = oneshot::Receiver<Turn>;

fn name() -> LockName {
    LockName::new("a").unwrap()
}

fn id(attempt: u64) -> HolderId {
    HolderId { client: ClientId(1), attempt }
}

fn request(attempt: u64) -> Request {
    Request::new(id(attempt), Mode::Exclusive, HolderInfo::default())
}

fn start() -> Instant {
    Instant::from_origin(Duration::from_secs(1_000))
}

/// The token of an attempt's grant: one microsecond later than the token of the previous attempt.
fn granted(attempt: u64) -> FencingToken {
    FencingToken::from_micros(TOKEN_EPOCH_US + attempt)
}

fn cleanup() -> Cleanup {
    let action = Action::End(End::new(request(0)));
    Cleanup { name: name(), action, until: start() + TTL, notice: None }
}

fn call(attempt: u64) -> Attempt {
    Attempt {
        name: name(),
        request: request(attempt),
        options: LeaseOptions::default(),
        pulse: None,
        joins: true,
        ticket: None,
        unanswered: true,
        is_taken_over: false,
    }
}

/// A call whose requests were all answered.
fn answered(attempt: u64, ticket: Option<Ticket>) -> Attempt {
    Attempt { ticket, unanswered: false, ..call(attempt) }
}

/// A keeper that nobody drives, with an observer.
fn keeper(clock: &FakeClock, slice: Duration) -> Arc<Keeper> {
    let observers = Observers::new(vec![Box::new(|_: &Event<'_>| {})]);
    let store = Box::new(Memory::with_clock(clock.clone()));
    let store = ClockedStore::new(store, Arc::new(clock.clone()), Bounds::default(), observers);
    let (who, defaults) = (HolderInfo::default(), LeaseOptions::default());
    let keeper = Arc::new(Keeper::new(store, [1, 1], who, defaults, slice));
    keeper.table().running = true;
    keeper
}

/// A keeper whose calls are all for the same name.
struct Scene(Arc<Keeper>, FakeClock);

impl Scene {
    fn new(slice: Duration) -> Self {
        let clock = FakeClock::new();
        clock.advance(start().since_origin());
        Self(keeper(&clock, slice), clock)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table()
    }

    fn join(&self, attempt: &mut Attempt, waits: bool, now: Instant) -> Step {
        self.0.join(attempt, waits, now).unwrap()
    }

    /// A call that is the first of a line.
    fn first(&mut self, attempt: u64) -> (Ticket, Receiver) {
        let mut call = call(attempt);
        match (self.join(&mut call, true, start()), call.ticket) {
            (Step::Ask(Ask { turn, release: None, .. }), Some(ticket)) => (ticket, turn),
            other => panic!("{other:?}"),
        }
    }

    /// A call that stands behind other calls.
    fn behind(&mut self, attempt: u64) -> (Ticket, Receiver) {
        let mut call = call(attempt);
        match (self.join(&mut call, true, start()), call.ticket) {
            (Step::Wait { turn, behind: Some(_) }, Some(ticket)) => (ticket, turn),
            other => panic!("{other:?}"),
        }
    }

    /// The store grants an attempt, and its caller gets the lease.
    fn grant(&mut self, attempt: u64, ticket: Option<Ticket>, now: Instant) -> Arc<LeaseState> {
        let mut table = self.table();
        let waiter = table.queues.take(id(attempt));
        let options =
            waiter.map_or_else(LeaseOptions::default, |waiter| waiter.attempt.options.clone());
        let token = granted(attempt);
        let attempt = Attempt { options, ticket, unanswered: false, ..call(attempt) };
        let renewing = Renewing::new(TTL, Renewal::Auto, now + TTL, now, token.get());
        let signal = Signal::new(Arc::new(FakeClock::new()), now + TTL);
        table.queues.granted(&attempt, now);
        let state = LeaseState::new(attempt, Grant::new(token), signal, now);
        table.leases.add(Arc::clone(&state), renewing, Handoff::Done);
        state
    }

    /// A line whose first caller holds the lease; it was granted at `start()`.
    fn held(&mut self) -> Arc<LeaseState> {
        let (ticket, _) = self.first(1);
        self.grant(1, Some(ticket), start())
    }

    /// The holder of a lease releases it.
    fn let_go(
        &self,
        state: &Arc<LeaseState>,
        cleanup: Option<&dyn Fn() -> Cleanup>,
        now: Instant,
    ) -> LetGo {
        let let_go = self.0.take_from_holder(&mut self.table(), state, cleanup, now);
        keep(&let_go.wakeup);
        let_go
    }

    /// The lease that the table has now instead of this one.
    fn kept(&self, state: &LeaseState) -> Arc<LeaseState> {
        Arc::clone(self.table().leases.get(state.id).unwrap())
    }

    /// The lease goes to the next caller, which fetches it.
    fn pass_on(&mut self, state: &Arc<LeaseState>, now: Instant) -> Arc<LeaseState> {
        let let_go = self.let_go(state, None, now);
        assert!(let_go.is_passed, "it is not passed on");
        let state = self.kept(state);
        let_go.wakeup.deliver();
        self.table().leases.mark_delivered([&state].into_iter(), None).unwrap();
        state
    }

    /// The lease is released, and the next caller is woken.
    fn release(&mut self, state: &Arc<LeaseState>, now: Instant) {
        let let_go = self.let_go(state, None, now);
        assert!(!let_go.is_passed);
        let_go.wakeup.deliver();
    }

    fn forget(&self, state: &LeaseState) -> bool {
        let (was_kept, wakeup) = self.table().forget(state, start());
        wakeup.deliver();
        was_kept
    }

    /// A call gives up its place. Returns what becomes of the place.
    fn leave(&mut self, ticket: Ticket, attempt: u64) -> Left {
        self.0.leave(&name(), Some(ticket), id(attempt))
    }

    fn leave_to_the_next(&mut self, ticket: Ticket, attempt: u64) {
        let left = self.leave(ticket, attempt);
        assert!(matches!(left, Left::PassedOn), "{left:?}");
    }

    fn due(&self, now: Instant) -> Due {
        self.0.take_due(&mut self.table(), now)
    }

    /// Does the work that is due, and returns the leases that were passed on.
    fn take_due(&mut self, now: Instant) -> Vec<Arc<LeaseState>> {
        let due = self.due(now);
        due.wakeups.into_iter().for_each(Wakeup::deliver);
        let passed = due.unfetched.into_iter().filter_map(|(state, next)| Some((state, next?)));
        passed
            .map(|(state, next)| {
                keep(&next);
                next.deliver();
                self.kept(&state)
            })
            .collect()
    }
}

/// Marks as finished the lease that this wakeup delivers, so that dropping it does not release it.
fn keep(wakeup: &Wakeup) {
    if let Some((_, Step::Held(held))) = &wakeup.turn {
        held.state.finish();
    }
}

fn asks(receiver: &mut Receiver) -> Ask {
    match receiver.try_recv() {
        Ok(Ok(Step::Ask(ask))) => ask,
        other => panic!("{other:?}"),
    }
}

fn waits(receiver: &mut Receiver) -> bool {
    matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

fn has_lease(receiver: &mut Receiver) -> bool {
    matches!(receiver.try_recv(), Ok(Ok(Step::Held(_))))
}
