//! The lines of a table, without a keeper: whose turn it is, and with what.

mod callers;
mod leases;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::renewal::Renewing;
use leasehold_core::token::TOKEN_EPOCH_US;
use leasehold_core::{
    Action, ClientId, FakeClock, FencingToken, HolderId, Instant, LeaseOptions, LockName, Mode,
    Renewal,
};
use tokio::sync::oneshot;

use super::{Begun, Left};
use crate::keeper::delivery::Delivery;
use crate::keeper::lease::{Granted, LeaseState};
use crate::keeper::table::{Ask, Cleanup, LetGo, Polling, Table, Turn, Waiter};
use crate::keeper::ticket::Ticket;
use crate::lost::Signal;

const SLICE: Duration = Duration::from_millis(5);
const TTL: Duration = Duration::from_secs(30);

type Receiver = oneshot::Receiver<Turn<()>>;

fn name() -> LockName {
    LockName::new("a").unwrap()
}

fn id(attempt: u64) -> HolderId {
    HolderId { client: ClientId(1), attempt }
}

fn start() -> Instant {
    Instant::from_origin(Duration::from_secs(1_000))
}

/// A grant's token, as far above that of the attempt before as the store's clock has steps.
fn granted(attempt: u64) -> FencingToken {
    FencingToken::from_micros(TOKEN_EPOCH_US + attempt)
}

fn cleanup() -> Cleanup {
    let action = Action::Cancel { id: id(0), unanswered: false };
    Cleanup { name: name(), action, until: start() + TTL, notice: None }
}

/// A call for the name, and where its turn comes.
fn call(attempt: u64) -> (Waiter<()>, Receiver) {
    let (turn, receiver) = oneshot::channel();
    let waiter = Waiter {
        name: name(),
        id: id(attempt),
        nonce: attempt,
        mode: Mode::Exclusive,
        options: LeaseOptions::default(),
        turn,
        pulse: None,
        unanswered: true,
        polling: Polling::default(),
        joins: true,
        ticket: None,
    };
    (waiter, receiver)
}

/// A table of which every call is for the same name.
struct Scene(Table<()>);

impl Scene {
    fn new(slice: Duration) -> Self {
        Self(Table::new(1, slice))
    }

    /// A call that is the first of a line.
    fn first(&mut self, attempt: u64) -> (Ticket, Receiver) {
        let (waiter, receiver) = call(attempt);
        match self.0.begin(waiter, true, start()) {
            Begun::Asks { ticket: Some(ticket), release: None } => (ticket, receiver),
            other => panic!("{other:?}"),
        }
    }

    /// A call that stands behind others.
    fn behind(&mut self, attempt: u64) -> (Ticket, Receiver) {
        let (waiter, receiver) = call(attempt);
        match self.0.begin(waiter, true, start()) {
            Begun::Behind { ticket, .. } => (ticket, receiver),
            other => panic!("{other:?}"),
        }
    }

    /// The store grants an attempt, whose caller has it.
    fn grant(&mut self, attempt: u64, ticket: Option<Ticket>, now: Instant) -> Arc<LeaseState> {
        let waiter = self.0.waiters.take(id(attempt));
        let granted = Granted {
            name: name(),
            id: id(attempt),
            mode: Mode::Exclusive,
            options: waiter.map_or_else(LeaseOptions::default, |waiter| waiter.options),
            unanswered: false,
            token: granted(attempt),
            valid_until: now + TTL,
            confirmed: true,
            delivery: Delivery::Done,
            joins: true,
            ticket,
        };
        let renewing = Renewing::new(TTL, Renewal::Auto, granted.valid_until, now, attempt);
        let signal = Signal::new(Arc::new(FakeClock::new()), granted.valid_until);
        let state = Arc::new(LeaseState::new(granted, signal, now));
        self.0.lines.granted(&state, true, ticket, now);
        self.0.leases.add(Arc::clone(&state), renewing, Delivery::Done);
        state
    }

    /// A line whose first holds, granted at the start.
    fn held(&mut self) -> Arc<LeaseState> {
        let (ticket, _) = self.first(1);
        self.grant(1, Some(ticket), start())
    }

    /// The lease goes to whoever is next, who fetches it.
    fn pass_on(&mut self, state: &Arc<LeaseState>, now: Instant) -> Arc<LeaseState> {
        let LetGo::Passed(passed) = self.0.let_go(state, None, now) else {
            panic!("it is not passed on")
        };
        assert!(passed.turn.send(Turn::Granted(())).is_ok());
        self.0.leases.mark_delivered([&passed.state].into_iter(), None).unwrap();
        passed.state
    }

    /// The lease is let go of, and whoever is next is woken.
    fn release(&mut self, state: &Arc<LeaseState>, now: Instant) {
        match self.0.let_go(state, None, now) {
            LetGo::Released { wakeup, .. } => wakeup.deliver(),
            LetGo::Passed(passed) => panic!("{passed:?}"),
        }
    }

    fn leave(&mut self, ticket: Ticket, attempt: u64) -> Left<()> {
        self.0.leave(&name(), Some(ticket), id(attempt), start())
    }

    fn leave_to_the_next(&mut self, ticket: Ticket, attempt: u64) {
        match self.leave(ticket, attempt) {
            Left::PassedOn(wakeup) => wakeup.deliver(),
            other => panic!("{other:?}"),
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Arc<LeaseState>> {
        let due = self.0.take_due(now);
        due.wakeups.into_iter().for_each(super::Wakeup::deliver);
        let passed = due.unfetched.into_iter().filter_map(|(_, passed)| passed);
        passed
            .map(|passed| {
                assert!(passed.turn.send(Turn::Granted(())).is_ok());
                passed.state
            })
            .collect()
    }
}

fn asks(receiver: &mut Receiver) -> Ask<()> {
    match receiver.try_recv() {
        Ok(Turn::Ask(ask)) => ask,
        other => panic!("{other:?}"),
    }
}

fn waits(receiver: &mut Receiver) -> bool {
    matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

fn has_lease(receiver: &mut Receiver) -> bool {
    matches!(receiver.try_recv(), Ok(Turn::Granted(())))
}
