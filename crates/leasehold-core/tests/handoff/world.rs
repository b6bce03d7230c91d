//! The world that is searched: one record, a few clients, a network. Time moves in whole seconds;
//! within one second everything may happen in any order.

use std::time::Duration;

use leasehold_core::model::{NOT_AFTER, Record, Rules, step};
use leasehold_core::{Acquire, Action, HoldState, Message, Mode, Now, Reply};
use stateright::{Model, Property};

use super::scenario::{Event, Protection, World};
use super::state::{Client, Kind, Phase, Request, START_US, State, Told, id};

pub(crate) const BOUNDED_WAIT: &str = "who keeps asking is served in bounded time";
pub(crate) const ENDED_STAYS_ENDED: &str = "nothing granted to an attempt that has ended stays";
pub(crate) const IN_ORDER: &str = "who keeps asking is served in the order of joining";
pub(crate) const ONE_HOLDER: &str = "at most one client may believe that it holds";

impl World {
    fn action(&self, request: Request) -> Action {
        let (id, ttl) = (id(request.from), Duration::from_secs(self.ttl));
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
        self.take_away(&mut state.record, now);
        // The time of its collection would distinguish states that are otherwise the same.
        state.record.collect_at_us = 0;
        for (client, message) in outcome.messages {
            if let Message::Granted { now_us, deadline_us, .. } = message {
                state.messages.push(Told { to: client.0 as u8, now_us, deadline_us });
            }
        }
        for client in 0..self.clients as u8 {
            if state.waits(client) && !state.joined.contains(&client) {
                state.joined.push(client);
            }
            if state.holds(client) && !state.granted.contains(&client) {
                state.granted.push(client);
            }
        }
        outcome.reply
    }

    fn take_away(&self, record: &mut Record, now: Now) {
        if !self.has(Protection::Tombstone) {
            record.tombstones.clear();
        }
        if !self.has(Protection::ClaimWindow) {
            for hold in &mut record.holds {
                if hold.state == HoldState::Unclaimed && hold.since_us == now.lease_us {
                    hold.deadline_us = now.lease_us + hold.ttl_us;
                    record.sweep.bound_us = hold.deadline_us;
                }
            }
        }
    }

    fn execute(&self, state: &mut State, index: usize, is_answered: bool) {
        let request = state.requests[index];
        let reply = self.apply(state, &self.action(request));
        let client = &mut state.clients[usize::from(request.from)];
        if client.is_stopped {
            state.requests.remove(index);
        } else if is_answered {
            state.requests.remove(index);
            state.answer(request, &reply);
        } else {
            state.losses -= 1;
            client.unanswered += u8::from(request.kind == Kind::Acquire);
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let idle = Client {
            phase: Phase::Idle,
            is_stopped: false,
            was_stopped: false,
            has_cancelled: false,
            asked_at: 0,
            sample: None,
            unanswered: 0,
        };
        let mut state = State {
            time: 0,
            record: Record::default(),
            clients: vec![idle; self.clients],
            requests: Vec::new(),
            messages: Vec::new(),
            joined: Vec::new(),
            granted: Vec::new(),
            stops: self.stops,
            cancels: self.cancels,
            losses: self.losses,
            copies: self.copies,
        };
        // The first client holds already.
        state = self.next_state(&state, Event::Begin(0)).unwrap_or(state);
        self.execute(&mut state, 0, true);
        vec![state]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for number in 0..self.clients as u8 {
            state.choices(number, self, events);
        }
        for index in 0..state.requests.len() {
            events.push(Event::Execute { index, is_answered: true });
            let from = usize::from(state.requests[index].from);
            if state.losses > 0 && !state.clients[from].is_stopped {
                events.push(Event::Execute { index, is_answered: false });
            }
        }
        for index in 0..state.messages.len() {
            if !state.clients[usize::from(state.messages[index].to)].is_stopped {
                events.push(Event::Hear { index, is_last: true });
                if state.copies > 0 {
                    events.push(Event::Hear { index, is_last: false });
                }
            }
        }
        if state.time < self.end && state.may_tick() {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Begin(number) => {
                let time = state.time;
                let client = &mut state.clients[usize::from(number)];
                (client.phase, client.asked_at, client.unanswered) = (Phase::Asking, time, 1);
                state.send(number, Kind::Acquire);
            }
            Event::Cancel(number) | Event::Leave(number) => {
                let client = &mut state.clients[usize::from(number)];
                client.has_cancelled = matches!(event, Event::Cancel(_));
                client.phase = Phase::Ending;
                let unanswered = client.unanswered > 0;
                state.requests.retain(|r| r.from != number || r.kind != Kind::Poll);
                let kind = match event {
                    Event::Cancel(_) => Kind::Cancel { unanswered },
                    _ => Kind::Release { unanswered },
                };
                state.send(number, kind);
            }
            Event::Copy(number) => {
                state.copies -= 1;
                state.clients[usize::from(number)].unanswered += 1;
                state.send(number, Kind::Acquire);
            }
            Event::Execute { index, is_answered } => self.execute(&mut state, index, is_answered),
            Event::Hear { index, is_last } => {
                let told = state.messages[index];
                if is_last {
                    state.messages.remove(index);
                } else {
                    state.copies -= 1;
                }
                state.hear(told, self.has(Protection::Validity));
            }
            Event::Resume(number) => state.resume(number),
            Event::Stop(number) => {
                state.stops -= 1;
                let client = &mut state.clients[usize::from(number)];
                (client.is_stopped, client.was_stopped) = (true, true);
                state.requests.retain(|r| r.from != number || r.kind == Kind::Acquire);
            }
            Event::Tick => state.tick(self.has(Protection::Poll)),
        }
        // Their order means nothing.
        state.requests.sort_unstable();
        state.messages.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_HOLDER, |_, state: &State| state.believers() <= 1),
            Property::always(ENDED_STAYS_ENDED, |_, state: &State| {
                let is_over = |(_, client): &(u8, &Client)| client.phase == Phase::Ended;
                let mut ended = state.numbered().filter(is_over);
                ended.all(|(number, _)| !state.holds(number) && !state.waits(number))
            }),
            Property::always(BOUNDED_WAIT, is_wait_bounded),
            Property::always(IN_ORDER, is_in_order),
            Property::sometimes("a message lets a waiter in before it asks", |_, state: &State| {
                let enters =
                    |c: &Client| matches!(c.phase, Phase::Holding { is_confirmed: false, .. });
                state.clients.iter().any(enters)
            }),
        ];
        if self.cancels > 0 {
            properties.push(Property::sometimes("a cancel crosses a grant", |_, state: &State| {
                let crosses = |(number, client): (u8, &Client)| {
                    client.has_cancelled && client.phase == Phase::Ending && state.holds(number)
                };
                state.numbered().any(crosses)
            }));
            properties.push(Property::sometimes("a copy outlives its attempt", |_, s: &State| {
                let is_over = |r: &Request| s.clients[usize::from(r.from)].phase == Phase::Ended;
                s.requests.iter().any(|request| request.kind == Kind::Acquire && is_over(request))
            }));
        }
        if self.holders_stop {
            properties.push(Property::sometimes("a lease passes under its holder", |_, s: &State| {
                let outlived = |c: &Client| {
                    matches!(c.phase, Phase::Holding { until, .. } if until <= s.time)
                };
                s.believers() == 1 && s.clients.iter().any(outlived)
            }));
        }
        properties
    }
}

fn is_wait_bounded(world: &World, state: &State) -> bool {
    state.numbered().filter(|(number, _)| state.is_steady(*number)).all(|(_, client)| match client
        .phase
    {
        Phase::Asking | Phase::Waiting => state.time - client.asked_at <= world.patience,
        Phase::Forgotten => false,
        Phase::Ended | Phase::Ending | Phase::Holding { .. } | Phase::Idle => true,
    })
}

fn is_in_order(_: &World, state: &State) -> bool {
    let place = |order: &[u8], number: u8| order.iter().position(|other| *other == number);
    state.joined.iter().enumerate().all(|(index, later)| {
        let Some(granted) = place(&state.granted, *later) else { return true };
        let mut earlier = state.joined[..index].iter().filter(|number| state.is_steady(**number));
        earlier.all(|number| place(&state.granted, *number).is_some_and(|own| own < granted))
    })
}
