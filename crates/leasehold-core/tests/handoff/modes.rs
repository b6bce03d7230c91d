//! Changes of mode, in every order in which their requests can arrive.
//!
//! A reader asks to become the writer, gives up, tries again and becomes a reader again, while
//! another one comes and goes. Time stands still: the search covers a network that delays, reorders
//! and repeats requests and loses answers. The first reader does what a guard does. The second one
//! may be let in wrongly, or may want to write at the same time.

use std::time::Duration;

use leasehold_core::model::{Record, Rules, step};
use leasehold_core::{Acquire, Action, HolderId, Mode, Now, Reply};
use stateright::{Model, Property};

use super::search::{breaks, holds_in};
use super::state::{START_US, WALL_US, id};

const TTL: Duration = Duration::from_secs(30);

const ALONE: &str = "nobody reads while a guard believes that it writes";
const ONE: &str = "one at a time believes that it is upgradable";
const NO_DEADLOCK: &str = "an upgradable reader only waits for others to leave";
const SETTLED: &str = "a renewal brings guard and store together";

const NOW: Now = Now { lease_us: START_US, token_us: WALL_US };

/// The protections that the search can take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    /// The numbers of changes are forgotten as soon as they have been compared.
    Numbers,
    /// A reader can wait to become the writer while an upgradable reader holds.
    Refusal,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
struct World {
    /// The modes in which the first and the second reader ask, each time they come.
    reader: Mode,
    visitor: Mode,
    /// How many changes the first reader asks for.
    changes: u64,
    /// How many copies of requests stay behind in the network.
    copies: u8,
    renewals: u8,
    /// How often the second reader comes.
    visits: u64,
    without: Option<Protection>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    record: Record,
    guard: Guard,
    /// How often the second reader has come, and whether it reads.
    visits: u64,
    is_visited: bool,
    /// The requests under way, and whether the guard waits for the answer.
    requests: Vec<(Request, bool)>,
    copies: u8,
    renewals: u8,
    /// A request was refused because it was late.
    was_late: bool,
    /// The first reader learned of a deadlock while it was upgradable.
    was_deadlocked: bool,
}

/// The state that the first reader believes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Guard {
    mode: Mode,
    /// Its mode while it is not the writer.
    reader: Mode,
    change: u64,
    drawn: u64,
    /// Whether it waits to become the writer.
    is_asking: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    mode: Mode,
    change: u64,
    is_renewal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// The first reader asks once more, with the same number.
    Ask,
    /// The second reader tries to read.
    Come,
    /// The writer becomes a reader, or an upgradable reader becomes a plain one.
    Downgrade,
    /// The store executes a request; a copy of it may stay behind, its answer may get lost.
    Execute {
        index: usize,
        stays: bool,
        is_heard: bool,
    },
    /// The first reader stops waiting.
    GiveUp,
    /// The second reader releases.
    Leave,
    Renew,
    /// The reader asks to become the writer.
    Upgrade,
    /// The second reader asks to become the writer, whatever the answer is.
    Wish,
}

impl Request {
    fn action(self) -> Action {
        let Self { mode, change, is_renewal } = self;
        match is_renewal {
            true => Action::Renew { id: id(0), ttl: TTL, mode, change },
            false => Action::ChangeMode { id: id(0), mode, change },
        }
    }

    fn order(&self) -> (u32, u64, bool) {
        (self.mode.weight(), self.change, self.is_renewal)
    }
}

impl Guard {
    fn settle(&mut self, mode: Mode) {
        (self.mode, self.change, self.is_asking) = (mode, self.drawn, false);
    }

    fn renewal(&self) -> Request {
        Request { mode: self.mode, change: self.change, is_renewal: true }
    }
}

impl State {
    fn ask(&mut self) {
        let change = self.guard.drawn;
        let mode = Mode::Exclusive;
        self.requests.push((Request { mode, change, is_renewal: false }, true));
    }

    /// From now on it is a reader. The store learns that in the background.
    fn become_reader(&mut self) {
        let mode = self.guard.reader;
        self.guard.settle(mode);
        self.requests.iter_mut().for_each(|(_, is_awaited)| *is_awaited = false);
        let change = self.guard.drawn;
        self.requests.push((Request { mode, change, is_renewal: false }, false));
    }
}

fn visitor(visit: u64) -> HolderId {
    HolderId { attempt: visit, ..id(1) }
}

fn read(id: HolderId, mode: Mode) -> Action {
    Action::Acquire(Acquire::new(id, mode, TTL).with_not_after(START_US))
}

impl World {
    fn step(&self, record: &mut Record, action: &Action) -> Reply {
        let reply = step(record, NOW, Rules::new(), action).reply;
        if self.without == Some(Protection::Numbers) {
            record.holds.iter_mut().for_each(|hold| hold.change = 0);
        }
        reply
    }

    fn execute(&self, state: &mut State, index: usize, stays: bool, is_heard: bool) {
        let (request, is_awaited) = state.requests[index];
        if stays {
            state.copies -= 1;
            state.requests[index].1 = false;
        } else {
            state.requests.remove(index);
        }
        let reply = self.step(&mut state.record, &request.action());
        state.was_late |= reply == Reply::Stale;
        let is_upgradable = state.guard.reader == Mode::Upgradable;
        state.was_deadlocked |= is_upgradable && reply == Reply::WouldDeadlock;
        if is_awaited && is_heard && matches!(reply, Reply::Granted(_)) {
            state.guard.settle(Mode::Exclusive);
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let mut record = Record::default();
        let (reader, change, drawn, is_asking) = (self.reader, 0, 0, false);
        self.step(&mut record, &read(id(0), reader));
        let visit = self.step(&mut record, &read(visitor(1), self.visitor));
        vec![State {
            record,
            guard: Guard { mode: reader, reader, change, drawn, is_asking },
            visits: 1,
            is_visited: matches!(visit, Reply::Granted(_)),
            requests: Vec::new(),
            copies: self.copies,
            renewals: self.renewals,
            was_late: false,
            was_deadlocked: false,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        let guard = &state.guard;
        if guard.is_asking {
            events.push(Event::GiveUp);
            if !state.requests.iter().any(|(_, is_awaited)| *is_awaited) {
                events.push(Event::Ask);
            }
        } else if guard.drawn < self.changes {
            if guard.mode != Mode::Exclusive {
                events.push(Event::Upgrade);
            }
            if guard.mode != Mode::Shared {
                events.push(Event::Downgrade);
            }
        }
        if state.renewals > 0 {
            events.push(Event::Renew);
        }
        if state.is_visited {
            events.push(Event::Leave);
            // Among plain readers, the first that asks to write has the right of way.
            if self.reader == Mode::Upgradable {
                events.push(Event::Wish);
            }
        } else if state.visits < self.visits {
            events.push(Event::Come);
        }
        for (index, (_, is_awaited)) in state.requests.iter().enumerate() {
            for (stays, is_heard) in [(false, true), (false, false), (true, true), (true, false)] {
                if (*is_awaited || !is_heard) && (state.copies > 0 || !stays) {
                    events.push(Event::Execute { index, stays, is_heard });
                }
            }
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Ask => state.ask(),
            Event::Come => {
                state.visits += 1;
                let read = read(visitor(state.visits), self.visitor);
                let reply = self.step(&mut state.record, &read);
                state.is_visited = matches!(reply, Reply::Granted(_));
            }
            Event::Downgrade => {
                state.guard.drawn += 1;
                if state.guard.mode == Mode::Upgradable {
                    state.guard.reader = Mode::Shared;
                }
                state.become_reader();
            }
            Event::Execute { index, stays, is_heard } => {
                self.execute(&mut state, index, stays, is_heard);
            }
            Event::GiveUp => state.become_reader(),
            Event::Leave => {
                let (id, cooldown) = (visitor(state.visits), Duration::ZERO);
                let release = Action::Release { id, cooldown, unanswered: false };
                self.step(&mut state.record, &release);
                state.is_visited = false;
            }
            Event::Renew => {
                state.renewals -= 1;
                state.requests.push((state.guard.renewal(), false));
            }
            Event::Upgrade => {
                (state.guard.drawn, state.guard.is_asking) = (state.guard.drawn + 1, true);
                state.ask();
            }
            Event::Wish => {
                let (id, mode) = (visitor(state.visits), Mode::Exclusive);
                let wish = Action::ChangeMode { id, mode, change: 1 };
                let reply = self.step(&mut state.record, &wish);
                if self.without == Some(Protection::Refusal) && reply == Reply::WouldDeadlock {
                    state.record.upgrading.get_or_insert(id);
                }
            }
        }
        // Order, times and tokens would distinguish states that are otherwise the same.
        state.requests.sort_by_key(|(request, is_awaited)| (request.order(), *is_awaited));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALONE, |_, state: &State| {
                state.guard.mode != Mode::Exclusive || !state.is_visited
            }),
            Property::always(ONE, |world: &World, state: &State| {
                let is_upgradable = [state.guard.mode, world.visitor].map(|m| m != Mode::Shared);
                !state.is_visited || is_upgradable != [true; 2]
            }),
            Property::always(NO_DEADLOCK, |_, state: &State| !state.was_deadlocked),
            Property::always(SETTLED, |world: &World, state: &State| {
                let mut record = state.record.clone();
                let reply = world.step(&mut record, &state.guard.renewal().action());
                let hold = record.holds.iter().find(|hold| hold.id == id(0));
                let weight = hold.map_or(0, |hold| hold.weight);
                let is_same = state.guard.is_asking || weight == state.guard.mode.weight();
                matches!(reply, Reply::Granted(_)) && is_same
            }),
            Property::sometimes("what is late is refused", |_, state: &State| state.was_late),
            Property::sometimes("it writes after it gave up", |_, state: &State| {
                state.guard.mode == Mode::Exclusive && state.guard.change > 1
            }),
        ]
    }
}

fn world() -> World {
    World {
        reader: Mode::Shared,
        visitor: Mode::Shared,
        changes: 3,
        copies: 1,
        renewals: 1,
        visits: 3,
        without: None,
    }
}

/// Searches for the first violation without a protection.
fn fails_without(protection: Protection, world: World, property: &'static str) {
    let world = World { without: Some(protection), ..world };
    breaks(&world, property);
}

#[test]
fn a_wish_that_was_given_up_touches_no_later_one_in_whatever_order_requests_arrive() {
    for world in [world(), World { copies: 2, renewals: 0, ..world() }] {
        holds_in(&world);
    }
}

#[test]
fn an_upgradable_reader_is_one_and_never_deadlocked_in_whatever_order_requests_arrive() {
    for visitor in [Mode::Shared, Mode::Upgradable] {
        let world = World { reader: Mode::Upgradable, visitor, ..world() };
        holds_in(&world);
    }
}

#[test]
fn without_numbers_a_late_request_lets_somebody_in_beside_a_writer() {
    let world = World { renewals: 0, copies: 0, ..world() };
    fails_without(Protection::Numbers, world, ALONE);
}

#[test]
fn without_the_refusal_a_reader_that_wants_to_write_deadlocks_an_upgradable_one() {
    let world = World { reader: Mode::Upgradable, renewals: 0, copies: 0, ..world() };
    fails_without(Protection::Refusal, world, NO_DEADLOCK);
}
