//! The counter behind all names, in every order in which it can be drawn from and lost.
//!
//! Clients take one name by one command each, and an operator frees it by force. The counter is
//! deleted, or set back to what it was. Tokens must be in the order of the grants all the same: the
//! store sets and draws in one transaction, and no number is behind the clock.

use leasehold_core::model::{self, Record, Rules};
use leasehold_core::{Action, End, Now};
use stateright::{Model, Property};

use super::search::{breaks, holds_in};
use super::state::{id, request};

const IN_ORDER: &str = "a later grant has a higher token";

const START_US: u64 = 1_000;

/// No name is granted more often than once in a microsecond: an event takes longer.
const EVENT_US: u64 = 10;

const CLIENTS: usize = 3;

#[derive(Clone, Debug)]
struct World {
    /// The name is set and the number drawn in one transaction.
    is_one_step: bool,
    /// No number is behind the clock.
    follows_clock: bool,
    /// How often the counter is deleted, or set back.
    faults: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    record: Record,
    counter: u64,
    /// What the counter was when a copy of the store was made.
    copied: u64,
    now_us: u64,
    clients: [Client; CLIENTS],
    /// The clients in the order in which they were granted the name.
    order: Vec<u8>,
    faults: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Idle,
    /// The name is set for it, and it has no number yet.
    Set,
    Holds(u64),
    Ended(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Copy,
    Delete,
    Draw(u8),
    End(u8),
    Force(u8),
    Restore,
    Set(u8),
}

impl World {
    fn now(&self, state: &State) -> Now {
        let token_us = if self.follows_clock { state.now_us } else { 0 };
        Now { lease_us: START_US, token_us }
    }

    fn draw(&self, state: &mut State) -> u64 {
        let token_us = self.now(state).token_us;
        state.counter = (state.counter + 1).max(token_us);
        state.counter
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            record: Record::default(),
            counter: START_US,
            copied: START_US,
            now_us: START_US,
            clients: [Client::Idle; CLIENTS],
            order: Vec::new(),
            faults: self.faults,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for (client, number) in state.clients.iter().zip(0..) {
            match client {
                Client::Idle => events.push(Event::Set(number)),
                Client::Set => events.push(Event::Draw(number)),
                Client::Holds(_) => events.push(Event::End(number)),
                Client::Ended(_) => {}
            }
        }
        if state.record.gate.is_some() {
            events.extend(state.order.last().copied().map(Event::Force));
        }
        if state.faults > 0 {
            events.extend([Event::Delete, Event::Restore]);
            if state.copied < state.counter {
                events.push(Event::Copy);
            }
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        state.now_us += EVENT_US;
        let now = self.now(&state);
        match event {
            Event::Copy => state.copied = state.counter,
            Event::Delete => (state.counter, state.faults) = (0, state.faults - 1),
            Event::Restore => (state.counter, state.faults) = (state.copied, state.faults - 1),
            Event::Set(client) => {
                let before = state.counter;
                let asked = (id(client), 1_000);
                let token = super::quick::set(&mut state.record, &mut state.counter, now, asked)?;
                state.order.push(client);
                state.clients[usize::from(client)] = match self.is_one_step {
                    true => Client::Holds(token),
                    false => {
                        state.counter = before;
                        Client::Set
                    }
                };
            }
            Event::Draw(client) => {
                state.clients[usize::from(client)] = Client::Holds(self.draw(&mut state));
            }
            Event::End(client) => {
                let Client::Holds(token) = state.clients[usize::from(client)] else { return None };
                super::quick::delete(&mut state.record, now, &End::new(request(client)));
                state.clients[usize::from(client)] = Client::Ended(token);
            }
            Event::Force(client) => {
                let action = Action::Revoke { id: id(client), force: true };
                let rules = Rules::USUAL;
                model::step(&mut state.record, &mut state.counter, now, rules, &action);
                // Attempts that have ended are another search.
                state.record = Record::default();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_ORDER, |_, state: &State| {
                let tokens = state.order.iter().filter_map(|client| {
                    match state.clients[usize::from(*client)] {
                        Client::Holds(token) | Client::Ended(token) => Some(token),
                        Client::Idle | Client::Set => None,
                    }
                });
                tokens.is_sorted_by(|one, next| one < next)
            }),
            Property::sometimes("all are granted the name", |_, state: &State| {
                state.order.len() == CLIENTS
            }),
        ]
    }
}

#[test]
fn tokens_are_in_the_order_of_grants_whatever_happens_to_the_counter() {
    holds_in(&World { is_one_step: true, follows_clock: true, faults: 2 });
}

#[test]
fn without_one_transaction_an_earlier_grant_has_the_higher_token() {
    breaks(&World { is_one_step: false, follows_clock: true, faults: 0 }, IN_ORDER);
}

#[test]
fn without_the_clock_a_counter_that_was_lost_repeats_tokens() {
    breaks(&World { is_one_step: true, follows_clock: false, faults: 1 }, IN_ORDER);
}
