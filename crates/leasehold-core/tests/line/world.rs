//! The world that is searched: one record, two lines of two callers, a network. Time moves in whole
//! seconds; within one second everything may happen in any order.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::model::{NOT_AFTER, Record, Rules, step};
use leasehold_core::{Acquire, Action, Message, Mode, Reply};
use stateright::{Model, Property};

use super::scenario::{Event, World};
use super::state::{Caller, Head, Kind, Lease, Line, Request, START_US, State, Told, id};

pub(crate) const ENDED_STAYS_ENDED: &str = "nothing granted to an attempt that has ended stays";
pub(crate) const ONE_HOLDER: &str = "at most one caller may believe that it holds";
pub(crate) const SERVED: &str = "every caller that is there is served in bounded time";
pub(crate) const TOKENS_GROW: &str = "every guard has a higher token than those before it";

impl World {
    fn action(&self, request: Request) -> Action {
        let (id, ttl) = (id(request.from, request.attempt), Duration::from_secs(self.ttl));
        match request.kind {
            Kind::Acquire => Action::Acquire(
                Acquire::new(id, Mode::Exclusive, ttl)
                    .with_wait(true)
                    .with_not_after(START_US + (request.sent + NOT_AFTER.as_secs()) * 1_000_000),
            ),
            Kind::Cancel { unanswered } => Action::Cancel { id, unanswered },
            Kind::Poll => Action::Poll { id, ttl },
            Kind::Release { unanswered } => {
                Action::Release { id, cooldown: Duration::ZERO, unanswered }
            }
        }
    }

    /// The store executes an action: the model itself.
    fn apply(&self, state: &mut State, action: &Action) -> Reply {
        let now = state.now();
        let outcome = step(&mut state.record, now, Rules::new(), action);
        // The time of its collection would distinguish states that are otherwise the same.
        state.record.collect_at_us = 0;
        for (client, message) in outcome.messages {
            if let Message::Granted { attempt, token, now_us, deadline_us, .. } = message {
                let (to, attempt) = (client.0 as u8, attempt as u8);
                state.messages.push(Told { to, attempt, token, now_us, deadline_us });
            }
        }
        outcome.reply
    }

    fn execute(&self, state: &mut State, index: usize, is_answered: bool) {
        let request = state.requests[index];
        let reply = self.apply(state, &self.action(request));
        if state.line(request.from).is_stopped {
            state.requests.remove(index);
        } else if is_answered {
            state.requests.remove(index);
            state.answer(request, &reply, self);
        } else {
            state.losses -= 1;
            state.unanswered(request);
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let line = |visits: [u8; 2]| Line {
            head: Head::Empty,
            behind: Vec::new(),
            callers: visits.map(|visits| Caller { visits, asked_at: None }),
            attempts: 0,
            is_stopped: false,
            was_stopped: false,
            sample: None,
        };
        vec![State {
            time: 0,
            record: Record::default(),
            lines: self.visits.map(line),
            requests: Vec::new(),
            messages: Vec::new(),
            last: 0,
            has_regressed: false,
            ended: BTreeSet::new(),
            drops: self.drops,
            stops: self.stops,
            losses: self.losses,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for number in 0..2 {
            state.choices(number, events);
        }
        for (index, request) in state.requests.iter().enumerate() {
            events.push(Event::Execute { index, is_answered: true });
            if state.losses > 0 && !state.lines[usize::from(request.from)].is_stopped {
                events.push(Event::Execute { index, is_answered: false });
            }
        }
        for (index, told) in state.messages.iter().enumerate() {
            if !state.lines[usize::from(told.to)].is_stopped {
                events.push(Event::Hear(index));
            }
        }
        if state.time < self.end && state.may_tick() {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Begin(number, caller) => state.begin(number, caller),
            Event::Drop(number, caller) => {
                state.drops -= 1;
                state.drop(number, caller, self);
            }
            Event::Execute { index, is_answered } => self.execute(&mut state, index, is_answered),
            Event::Hear(index) => {
                let told = state.messages.remove(index);
                state.hear(told, self);
            }
            Event::LetGo(number) => state.let_go(number, self),
            Event::Resume(number) => state.resume(number),
            Event::Stop(number) => {
                state.stops -= 1;
                let line = state.line(number);
                (line.is_stopped, line.was_stopped) = (true, true);
                state.requests.retain(|r| (r.from, r.kind) != (number, Kind::Poll));
            }
            Event::Tick => state.tick(),
        }
        // Their order means nothing.
        state.requests.sort_unstable();
        state.messages.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_HOLDER, |_, state: &State| state.believers() <= 1),
            Property::always(TOKENS_GROW, |_, state: &State| !state.has_regressed),
            Property::always(ENDED_STAYS_ENDED, |_, state: &State| {
                state.ended.iter().all(|(line, attempt)| !state.is_known(*line, *attempt))
            }),
            Property::always(SERVED, is_served),
            Property::sometimes("a lease is passed on", |_, state: &State| {
                leases(state).any(|lease| lease.passes > 0)
            }),
            Property::sometimes("a line has a lease after it has yielded", |_, s: &State| {
                leases(s).any(|lease| lease.attempt > 1)
            }),
            Property::sometimes("a yield arrives before its release", |_, state: &State| {
                let is_late = |r: &Request| {
                    matches!(r.kind, Kind::Release { .. }) && state.is_known(r.from, r.attempt + 1)
                };
                state.requests.iter().any(is_late)
            }),
        ];
        if self.stops > 0 {
            properties.push(Property::sometimes("one is lost that was passed on", |_, s: &State| {
                let is_lost = |line: &Line| {
                    matches!(line.head, Head::Held(l) if l.passes > 0 && l.until <= s.time)
                };
                s.believers() == 1 && s.lines.iter().any(is_lost)
            }));
        }
        properties
    }
}

/// The leases of the lines.
fn leases(state: &State) -> impl Iterator<Item = Lease> {
    state.lines.iter().filter_map(|line| match line.head {
        Head::Held(lease) => Some(lease),
        Head::Asking { .. } | Head::Empty | Head::Forgotten => None,
    })
}

/// Whether the callers of clients that have never stopped are served in time.
fn is_served(world: &World, state: &State) -> bool {
    state.lines.iter().filter(|line| !line.was_stopped).all(|line| {
        let mut waiting = line.callers.iter().filter_map(|caller| caller.asked_at);
        line.head != Head::Forgotten && waiting.all(|at| state.time - at <= world.patience)
    })
}
