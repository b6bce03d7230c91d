//! The world that is searched: one record, one counter, a few clients, a network.

use std::time::Duration;

use leasehold_core::model::{self, Rules, State as GateState};
use leasehold_core::{
    Action, End, FencingToken, Grant, HolderInfo, Keep, Message as Hint, Reply, Take,
};
use stateright::{Model, Property};

use super::quick;
use super::scenario::{Event, Rule, World};
use super::state::{Kind, Message, NOW, Phase, Request, State, id, now, number, request, span};
use super::store::described;

pub(crate) const CLOSED: &str = "an attempt that has ended gets nothing from a late copy";
pub(crate) const IN_ORDER: &str = "no newcomer overtakes a waiter that keeps asking";
pub(crate) const NAMED: &str = "the gate names the token that its holder has";
pub(crate) const ONE_HOLDER: &str = "at most one client may believe that it holds";
pub(crate) const SETTLES: &str = "who keeps asking is served, and then nothing is left";
pub(crate) const TOKENS: &str = "a later grant has a higher token";

impl World {
    fn rules(&self) -> Rules {
        Rules { times: self.times, ..Rules::USUAL }
    }

    fn step(&self, state: &mut State, action: &Action) -> Reply {
        Self::step_by(self.rules(), state, action)
    }

    fn step_by(rules: Rules, state: &mut State, action: &Action) -> Reply {
        let outcome = model::step(&mut state.record, &mut state.counter, now(), rules, action);
        for (client, message) in outcome.messages {
            if let Hint::Granted { token, now_us, .. } = message {
                let (to, token) = (client.0 as u8, token.micros());
                state.messages.push(Message { to, token, granted_at: now_us / 1_000 });
            }
        }
        outcome.reply
    }

    fn execute(&self, state: &mut State, sent: Request) -> Reply {
        let from = sent.from;
        let before = state.holder().filter(|_| state.record.gate.is_some());
        let known = |token: Option<u64>| described(token?, HolderInfo::default());
        let reply = match sent.kind {
            Kind::Delete { described } => {
                let end = End::new(request(from)).with_known(known(described));
                Reply::Ended(quick::delete(&mut state.record, now(), &end))
            }
            Kind::End { closes } => {
                let end = End::new(request(from)).with_closes(closes);
                self.step(state, &Action::End(end))
            }
            Kind::Keep { description } => {
                let keep = Keep::new(request(from), span(self.ttl));
                self.keep(state, keep.with_description(known(description)))
            }
            Kind::Set => self.set(state, from),
            Kind::Take => self.take(state, from),
        };
        self.note(state, sent, &reply, before);
        if !self.has(Rule::ClosedIsKept) {
            state.record.closed.clear();
        }
        reply
    }

    fn keep(&self, state: &mut State, keep: Keep) -> Reply {
        let describes = keep.description.is_some();
        let reply = self.step(state, &Action::Keep(keep));
        if describes
            && !self.has(Rule::DescriptionIsBlind)
            && let Some(gate) = &mut state.record.gate
            && let GateState::Awaited(hold) = &gate.state
        {
            gate.state = GateState::Held(hold.clone());
        }
        reply
    }

    fn set(&self, state: &mut State, from: u8) -> Reply {
        let waits = |waiting: &u8| {
            let client = &state.clients[usize::from(*waiting)];
            matches!(client.phase, Phase::Asking | Phase::Waiting) && *waiting != from
        };
        let waits = state.record.queue.values().any(|waiter| waits(&number(waiter.request.id)));
        let token = quick::set(&mut state.record, &mut state.counter, now(), (id(from), self.ttl));
        let Some(token) = token else { return Reply::Busy { retry_after: Duration::ZERO } };
        state.has_overtaken |= waits;
        let token = FencingToken::from_micros(token);
        Reply::Granted(Grant::new(token).with_described(false))
    }

    fn take(&self, state: &mut State, from: u8) -> Reply {
        let place = state.clients[usize::from(from)].place;
        let take = Take::new(request(from), span(self.ttl)).with_waits(true).with_place(place);
        if !self.has(Rule::OneToken)
            && let Some(gate) = &mut state.record.gate
            && let GateState::Held(hold) | GateState::Awaited(hold) = &mut gate.state
        {
            hold.token = None;
        }
        let first = state.record.queue.values().next().map(|waiter| number(waiter.request.id));
        let mut rules = self.rules();
        // A store in quarantine lets a waiter join, and serves nobody.
        rules.in_quarantine =
            !self.has(Rule::AnyAskServes) && first.is_some_and(|first| first != from);
        Self::step_by(rules, state, &Action::Take(take))
    }

    /// Writes down who was granted what, and who has ended.
    fn note(&self, state: &mut State, request: Request, reply: &Reply, before: Option<u8>) {
        let from = request.from;
        let token = match (reply, state.holder()) {
            (Reply::Granted(grant), _) => Some((from, grant.token.micros())),
            (_, Some(holder)) if before != Some(holder) => {
                let hold = state.record.gate.as_ref().and_then(|gate| match &gate.state {
                    GateState::Awaited(hold) => hold.token,
                    _ => None,
                });
                hold.map(|token| (holder, token))
            }
            (_, _) => None,
        };
        if let Some((to, token)) = token {
            let others = state.granted.iter().zip(0..).filter(|(_, other)| *other != to);
            state.has_regressed |= others.into_iter().any(|(granted, _)| *granted >= token);
            let granted = &mut state.granted[usize::from(to)];
            *granted = token.max(*granted);
        }
        let has_ended = match request.kind {
            Kind::Delete { .. } => *reply == Reply::Ended(true),
            Kind::End { .. } => true,
            Kind::Keep { .. } | Kind::Set | Kind::Take => false,
        };
        if has_ended {
            state.client(from).closed_until = NOW + self.times.closed_ms;
        } else if state.client(from).closed_until > NOW {
            let waits = state.record.queue.values().any(|waiter| waiter.request.id == id(from));
            state.has_returned |= waits || state.holder() == Some(from);
        }
    }

    fn revoke(&self, state: &mut State, victim: u8) {
        self.step(state, &Action::Revoke { id: id(victim), force: true });
        if !self.has(Rule::ForceCloses) {
            state.record.closed.retain(|closed| *closed != id(victim));
        }
        let closed_until = NOW + self.times.closed_ms;
        let client = state.client(victim);
        (client.is_revoked, client.closed_until) = (true, closed_until);
    }

    /// The events of a client's own.
    fn choices(&self, state: &State, from: u8, events: &mut Vec<Event>) {
        let client = &state.clients[usize::from(from)];
        let is_here = !matches!(client.phase, Phase::Dead | Phase::Done | Phase::Idle);
        if is_here && state.deaths > 0 {
            events.push(Event::Die(from));
        }
        if is_here && client.open.is_some() && state.reconnects > 0 {
            events.push(Event::Reconnect(from));
        }
        match client.phase {
            Phase::Idle => {
                // Clients are alike, so they begin in order.
                if from == 0 || state.clients[usize::from(from) - 1].phase != Phase::Idle {
                    events.push(Event::Begin { client: from, is_quick: true });
                    events.push(Event::Begin { client: from, is_quick: false });
                }
            }
            Phase::Asking => {
                events.push(Event::Leave(from));
                if state.reconnects > 0 {
                    events.push(Event::GiveUp(from));
                }
            }
            Phase::Waiting => {
                if client.open.is_none() && client.ask_at <= NOW {
                    events.push(Event::Ask(from));
                }
                events.push(Event::Leave(from));
            }
            Phase::Holding { until, is_claimed, .. } if until > NOW => {
                events.push(Event::Leave(from));
                if self.keeps && is_claimed && !client.has_kept && client.open.is_none() {
                    events.push(Event::Keep(from));
                }
            }
            Phase::Holding { .. } | Phase::Dead | Phase::Done | Phase::Ending => {}
        }
    }

    /// Whether time may go on: in a timely world it waits for the requests of those that live.
    fn may_tick(&self, state: &State) -> bool {
        let owes = |client: &&super::state::Client| {
            let is_alive = !matches!(client.phase, Phase::Dead | Phase::Done);
            let asks = client.phase == Phase::Waiting && client.ask_at <= NOW;
            is_alive && (client.open.is_some() || asks)
        };
        let is_begun = state.clients.iter().any(|client| client.phase != Phase::Idle);
        is_begun && !(self.is_timely && state.clients.iter().any(|client| owes(&client)))
    }

    /// From here on, what is sent arrives at once, and what is under way arrives or is lost; those
    /// that live ask until they are served, and end. Returns whether all were served, and whether
    /// nothing is left.
    fn settles(&self, state: &State, is_lost: bool) -> bool {
        let mut state = state.clone();
        if is_lost {
            state.messages.clear();
            state.requests.clear();
        }
        let is_over = |phase| matches!(phase, Phase::Dead | Phase::Done | Phase::Idle);
        for _ in 0..24 {
            for _ in 0..40 {
                if !self.calm_step(&mut state) {
                    break;
                }
            }
            let all_over = state.clients.iter().all(|client| is_over(client.phase));
            if all_over && state.record == model::Record::default() {
                return true;
            }
            state.tick(self);
            state.clean();
        }
        false
    }

    fn calm_step(&self, state: &mut State) -> bool {
        if !state.requests.is_empty() {
            let request = state.requests.remove(0);
            let reply = self.execute(state, request);
            if self.is_heard(state, request) {
                state.answer(request, &reply, self);
            }
            return true;
        }
        if let Some(message) = state.messages.pop() {
            state.hear(message, self);
            return true;
        }
        for from in 0..state.clients.len() as u8 {
            let client = *state.client(from);
            match client.phase {
                Phase::Dead | Phase::Done | Phase::Idle => {}
                _ if client.open.is_some() => {
                    state.reconnect(from, self);
                    return true;
                }
                Phase::Waiting if client.ask_at <= NOW => {
                    state.send(from, Kind::Take);
                    return true;
                }
                Phase::Holding { .. } => {
                    state.end(from, self);
                    return true;
                }
                Phase::Asking | Phase::Ending | Phase::Waiting => {}
            }
        }
        false
    }

    fn is_heard(&self, state: &State, request: Request) -> bool {
        let client = &state.clients[usize::from(request.from)];
        let is_here = !matches!(client.phase, Phase::Dead | Phase::Done);
        is_here && client.connection == request.connection
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self)]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for client in 0..self.clients as u8 {
            self.choices(state, client, events);
        }
        for (index, request) in state.requests.iter().enumerate() {
            let is_first = !state.requests[..index].iter().any(|earlier| {
                (earlier.from, earlier.connection) == (request.from, request.connection)
            });
            if !is_first {
                continue;
            }
            let is_heard = self.is_heard(state, *request);
            if is_heard {
                events.push(Event::Execute { index, is_answered: true });
            }
            if !is_heard || state.reconnects > 0 {
                events.push(Event::Execute { index, is_answered: false });
            }
        }
        events.extend((0..state.messages.len()).map(Event::Hear));
        if state.revokes > 0 && state.holder().is_some() {
            events.push(Event::Revoke);
        }
        if self.may_tick(state) {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Ask(client) => state.send(client, Kind::Take),
            Event::Begin { client, is_quick } => {
                state.client(client).phase = Phase::Asking;
                state.send(client, if is_quick { Kind::Set } else { Kind::Take });
            }
            Event::Die(client) => {
                state.deaths -= 1;
                state.client(client).phase = Phase::Dead;
            }
            Event::Execute { index, is_answered } => {
                let request = state.requests.remove(index);
                let reply = self.execute(&mut state, request);
                if is_answered {
                    state.answer(request, &reply, self);
                }
            }
            Event::GiveUp(client) => {
                state.reconnects -= 1;
                let own = state.client(client);
                (own.connection, own.is_unanswered) = (own.connection + 1, true);
                own.phase = Phase::Ending;
                state.send(client, Kind::End { closes: true });
            }
            Event::Hear(index) => {
                let message = state.messages.remove(index);
                state.hear(message, self);
            }
            Event::Keep(client) => {
                state.client(client).has_kept = true;
                let phase = state.client(client).phase;
                let Phase::Holding { token, .. } = phase else { return None };
                state.send(client, Kind::Keep { description: Some(token) });
            }
            Event::Leave(client) => {
                let own = state.client(client);
                if own.phase == Phase::Asking || own.open.is_some_and(Kind::asks) {
                    // Behind its request: if both are sent again, only the cancel is.
                    own.is_unanswered |= self.has(Rule::SecondCancelCloses);
                    let closes = own.connection > 0;
                    own.phase = Phase::Ending;
                    state.send(client, Kind::End { closes });
                } else {
                    state.end(client, self);
                }
            }
            Event::Reconnect(client) => {
                state.reconnects -= 1;
                state.reconnect(client, self);
            }
            Event::Revoke => {
                let victim = state.holder()?;
                state.revokes -= 1;
                self.revoke(&mut state, victim);
            }
            Event::Tick => state.tick(self),
        }
        state.normalize();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_HOLDER, |_, state: &State| {
                let believes = |client: &&super::state::Client| {
                    let holds =
                        |phase| matches!(phase, Phase::Holding { until, .. } if until > NOW);
                    holds(client.phase) && !client.is_revoked
                };
                state.clients.iter().filter(believes).count() <= 1
            }),
            Property::always(TOKENS, |_, state: &State| {
                let is_late = |(at, client): (usize, &super::state::Client)| match client.phase {
                    Phase::Holding { token, until, .. } if until > NOW && !client.is_revoked => {
                        let others = state.granted.iter().enumerate();
                        others.into_iter().any(|(other, granted)| other != at && *granted > token)
                    }
                    _ => false,
                };
                !state.has_regressed && !state.clients.iter().enumerate().any(is_late)
            }),
            Property::always(SETTLES, |world: &Self, state: &State| {
                world.settles(state, false) && world.settles(state, true)
            }),
            Property::always(CLOSED, |_, state: &State| !state.has_returned),
            Property::always(NAMED, |_, state: &State| {
                let Some(gate) = &state.record.gate else { return true };
                let (GateState::Held(hold) | GateState::Awaited(hold)) = &gate.state else {
                    return true;
                };
                match state.clients[usize::from(number(hold.id))].phase {
                    Phase::Holding { token, until, .. } if until > NOW => {
                        hold.token.is_none_or(|named| named == token)
                    }
                    _ => true,
                }
            }),
        ];
        if self.is_timely {
            properties.push(Property::always(IN_ORDER, |_, state: &State| !state.has_overtaken));
        }
        properties
    }
}
