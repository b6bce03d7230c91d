//! A semaphore for which requests name different capacities, in every order in which they can come.
//!
//! Time stands still and nobody dies: the search covers which permits are granted together.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::model::{Record, Rules, step};
use leasehold_core::{Acquire, Action, Mode, Now};
use stateright::{Model, Property};

use super::search::{breaks, holds_in};
use super::state::{START_US, WALL_US, id};

const BOTH: &str = "there are never more holders than any of them has asked for";
const IN_ORDER: &str = "requests are granted in the order in which they came";
const NEVER_BEYOND: &str = "nothing is granted beyond the capacity in force";
const SERVED: &str = "the next waiter waits for a holder";

const NOW: Now = Now { lease_us: START_US, token_us: WALL_US };

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

fn acquire(client: u8) -> Action {
    let (count, capacity) = ASKED[usize::from(client)];
    Action::Acquire(
        Acquire::new(id(client), Mode::Permits { count, capacity }, Duration::from_secs(30))
            .with_wait(true)
            .with_not_after(START_US),
    )
}

fn used(record: &Record) -> u32 {
    record.holds.iter().map(|hold| hold.weight).sum()
}

fn holders(record: &Record) -> impl Iterator<Item = u8> {
    record.holds.iter().map(|hold| hold.id.client.0 as u8)
}

impl World {
    fn apply(&self, state: &mut State, action: &Action) {
        let before = used(&state.record);
        step(&mut state.record, NOW, Rules::new(), action);
        if self.mixes {
            let capacity = state.record.capacity;
            let waiting = state.record.queue.values_mut().filter(|w| w.weight <= capacity);
            waiting.for_each(|waiting| waiting.capacity = capacity);
        }
        let now = used(&state.record);
        state.went_beyond |= now > before && now > state.record.capacity;
        let new: Vec<u8> = holders(&state.record).filter(|c| !state.granted.contains(c)).collect();
        // Grants of one step are in the order of tokens.
        let token = |client: &u8| {
            let hold = state.record.holds.iter().find(|hold| hold.id == id(*client));
            hold.map_or(0, |hold| hold.token_us)
        };
        let mut new: Vec<_> = new.into_iter().map(|client| (token(&client), client)).collect();
        new.sort_unstable();
        state.granted.extend(new.into_iter().map(|(_, client)| client));
        // Without this, tokens would distinguish states that are otherwise the same.
        state.record.collect_at_us = 0;
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            record: Record::default(),
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
                self.apply(&mut state, &acquire(client));
            }
            Event::Leave(client) => {
                state.left.insert(client);
                self.apply(&mut state, &Action::Cancel { id: id(client), unanswered: false });
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOTH, |_, state: &State| {
                let used = used(&state.record);
                let asked = |client: u8| ASKED[usize::from(client)].1;
                holders(&state.record).all(|client| used <= asked(client))
            }),
            Property::always(NEVER_BEYOND, |_, state: &State| !state.went_beyond),
            Property::always(SERVED, |_, state: &State| {
                let record = &state.record;
                let Some(head) = record.queue.values().next() else { return true };
                let is_full = used(record) + head.weight > record.capacity;
                !record.holds.is_empty() && (is_full || head.capacity != record.capacity)
            }),
            Property::always(IN_ORDER, |_, state: &State| {
                let waits = |client: u8| {
                    state.record.queue.values().any(|waiting| waiting.id == id(client))
                };
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
                    let capacity = s.record.capacity;
                    let mut waiting = s.record.queue.values().map(|w| w.id.client.0 as u8);
                    waiting.any(|client| is_other((client, capacity))) && used(&s.record) == 1
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
