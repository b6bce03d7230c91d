//! A semaphore for which requests name different capacities, in every order in which they can come.
//!
//! Time stands still and nobody dies: the search covers which permits are granted together.

use std::collections::BTreeSet;

use leasehold_core::model::{Gate, Record, Rules, State as GateState, step};
use leasehold_core::{Action, End, HolderInfo, Mode, Now, Request, Take};
use stateright::{Model, Property};

use super::search::{breaks, holds_in};
use super::state::{FIRST, id, number, span};

const BOTH: &str = "there are never more holders than any of them has asked for";
const IN_ORDER: &str = "requests are granted in the order in which they came";
const NEVER_BEYOND: &str = "nothing is granted beyond the capacity in force";
const SERVED: &str = "the next waiter waits for a holder";

const NOW: Now = Now { lease_us: 1_000_000_000, token_us: 0 };

/// The request of each client: how many permits, of which capacity.
const ASKED: [(u32, u32); 5] = [(1, 2), (1, 2), (2, 3), (1, 3), (2, 2)];

/// The bounds of the search.
#[derive(Clone, Debug)]
struct World {
    /// A waiter is treated as if it had requested the capacity in force.
    mixes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    record: Record,
    counter: u64,
    /// The clients that have not asked yet.
    idle: BTreeSet<u8>,
    /// The clients that came, in order, and how many of them were granted or have left.
    came: Vec<u8>,
    granted: Vec<u8>,
    left: BTreeSet<u8>,
    went_beyond: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Ask(u8),
    /// The client releases its permits, or stops waiting.
    Leave(u8),
}

fn request(client: u8) -> Request {
    let (count, capacity) = ASKED[usize::from(client)];
    Request::new(id(client), Mode::Permits { count, capacity }, HolderInfo::default())
}

fn take(client: u8) -> Action {
    Action::Take(Take::new(request(client), span(30_000)).with_waits(true))
}

/// The capacity in force; none if nobody holds.
fn capacity(record: &Record) -> u32 {
    match record.gate {
        Some(Gate { state: GateState::Shared { capacity }, .. }) => capacity,
        _ => 0,
    }
}

fn holders(record: &Record) -> impl Iterator<Item = u8> {
    record.shares.keys().map(|id| number(*id))
}

fn waiting(record: &Record) -> Vec<u8> {
    record.queue.values().map(|waiter| number(waiter.request.id)).collect()
}

impl World {
    fn apply(&self, state: &mut State, action: &Action) {
        let before = state.record.used();
        step(&mut state.record, &mut state.counter, NOW, Rules::USUAL, action);
        if self.mixes {
            let capacity = capacity(&state.record);
            for waiter in state.record.queue.values_mut() {
                let mode = &mut waiter.request.mode;
                let count = mode.weight();
                if count <= capacity {
                    *mode = Mode::Permits { count, capacity };
                }
            }
        }
        let now = state.record.used();
        state.went_beyond |= now > before && now > capacity(&state.record);
        let new: Vec<u8> = holders(&state.record).filter(|c| !state.granted.contains(c)).collect();
        // Grants of one step are in the order of tokens.
        let token = |client: &u8| state.record.shares[&id(*client)].token;
        let mut new: Vec<_> = new.into_iter().map(|client| (token(&client), client)).collect();
        new.sort_unstable();
        state.granted.extend(new.into_iter().map(|(_, client)| client));
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            record: Record::default(),
            counter: FIRST,
            idle: (0..ASKED.len() as u8).collect(),
            came: Vec::new(),
            granted: Vec::new(),
            left: BTreeSet::new(),
            went_beyond: false,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        events.extend(state.idle.iter().map(|client| Event::Ask(*client)));
        let here = state.came.iter().filter(|client| !state.left.contains(client));
        events.extend(here.map(|client| Event::Leave(*client)));
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Ask(client) => {
                state.idle.remove(&client);
                state.came.push(client);
                self.apply(&mut state, &take(client));
            }
            Event::Leave(client) => {
                state.left.insert(client);
                let waited = waiting(&state.record).contains(&client);
                self.apply(&mut state, &Action::End(End::new(request(client))));
                if waited {
                    // The others ask again within a second.
                    for client in waiting(&state.record) {
                        self.apply(&mut state, &take(client));
                    }
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOTH, |_, state: &State| {
                let used = state.record.used();
                let asked = |client: u8| ASKED[usize::from(client)].1;
                holders(&state.record).all(|client| used <= asked(client))
            }),
            Property::always(NEVER_BEYOND, |_, state: &State| !state.went_beyond),
            Property::always(SERVED, |_, state: &State| {
                let record = &state.record;
                let Some(head) = record.queue.values().next() else { return true };
                let (mode, capacity) = (head.request.mode, capacity(record));
                let is_full = record.used() + mode.weight() > capacity;
                !record.shares.is_empty() && (is_full || mode.capacity() != capacity)
            }),
            Property::always(IN_ORDER, |_, state: &State| {
                let waiting = waiting(&state.record);
                let waits = |client: u8| waiting.contains(&client);
                let place = |client: u8| state.came.iter().position(|came| *came == client);
                let in_order = state.granted.is_sorted_by_key(|client| place(*client));
                let first = state.came.iter().position(|client| waits(*client));
                let last = state.granted.last().and_then(|client| place(*client));
                in_order && first.is_none_or(|first| last.is_none_or(|last| last < first))
            }),
            Property::sometimes(
                "a request waits for the end of another capacity",
                |_, s: &State| {
                    let is_other =
                        |(client, capacity): (u8, u32)| ASKED[usize::from(client)].1 != capacity;
                    let capacity = capacity(&s.record);
                    let mut waiting = waiting(&s.record).into_iter();
                    waiting.any(|client| is_other((client, capacity))) && s.record.used() == 1
                },
            ),
        ]
    }
}

#[test]
fn two_capacities_are_never_mixed_and_the_next_waiter_is_served() {
    holds_in(&World { mixes: false });
}

#[test]
fn without_its_own_capacity_a_waiter_shares_more_than_it_asked_for() {
    breaks(&World { mixes: true }, BOTH);
}
