//! The world that is searched: three nodes that are [`leasehold_core::model::step`] itself, clients
//! that count with [`leasehold_core::quorum`] itself, and a network that loses, delays, reorders
//! and repeats. A request that is never executed is a lost one, so no other event loses requests.

use std::time::Duration;

use leasehold_core::model::{Record, Rules, State as GateState, Times, step};
use leasehold_core::{Action, Description, End, FencingToken, HolderInfo, Keep, Mode, Reply, Take};
use stateright::{Model, Property};

use super::scenario::{Event, NODES, Protection, World};
use super::state::{Client, Kind, Node, Phase, Request, State, WALL_US, id};

pub(crate) const ENDED_STAYS_ENDED: &str = "nothing granted to an attempt that has ended stays";
pub(crate) const IN_ORDER: &str = "tokens are distinct and in the order of real time";
pub(crate) const KEPT: &str = "who renews while nodes forget in turn is not told of a loss";
pub(crate) const ONE_HOLDER: &str = "at most one client may believe that it holds";
pub(crate) const PROVEN: &str = "who extends its lease was not overtaken when it asked";

/// How far a grant of another name raises the counter.
const OTHER: u64 = 4;

/// A time after the end of every world, in milliseconds.
const FAR_MS: u64 = 1 << 50;

/// Nobody waits, so only ended attempts have a time. It does not end.
const TIMES: Times =
    Times { closed_ms: FAR_MS, grace_ms: 0, ask_ms: 1_000, queue_ms: 1_000, window_ms: 1_000 };

impl World {
    fn action(&self, Request { from, kind, .. }: Request) -> Action {
        let request =
            leasehold_core::Request::new(id(from), Mode::Exclusive, HolderInfo::default());
        // A hold has its last millisecond, too.
        let ttl = Duration::from_secs(self.ttl) - Duration::from_millis(1);
        match kind {
            Kind::Claim(token) => Action::Take(Take::new(request, ttl).with_claim(Some(token))),
            Kind::Describe(token) => {
                let description = Description::new(token, HolderInfo::default());
                Action::Keep(Keep::new(request, ttl).with_description(Some(Box::new(description))))
            }
            Kind::End { closes } => Action::End(End::new(request).with_closes(closes)),
            Kind::Join(token) => {
                Action::Take(Take::new(request, ttl).with_ballot(Some(token.micros())))
            }
            Kind::Keep => Action::Keep(Keep::new(request, ttl)),
            Kind::Take { ballot_us } => {
                Action::Take(Take::new(request, ttl).with_ballot(Some(ballot_us)))
            }
        }
    }

    /// A node executes a request: the model itself.
    fn apply(&self, state: &mut State, request: Request) -> Reply {
        let time = state.time;
        let node = &mut state.nodes[request.node];
        let is_in_quarantine = node.is_in_quarantine(time);
        let obeys = match request.kind {
            Kind::Claim(_) => is_in_quarantine || !self.has(Protection::ClaimInQuarantine),
            Kind::Join(_) | Kind::Take { .. } => {
                is_in_quarantine && self.has(Protection::RefusalFirst)
            }
            Kind::Describe(_) | Kind::End { .. } | Kind::Keep => is_in_quarantine,
        };
        let rules = Rules { times: TIMES, held_back: false, in_quarantine: obeys };
        let now = node.now(time);
        let (record, counter) = (&mut node.record, &mut node.counter);
        let reply = step(record, counter, now, rules, &self.action(request)).reply;
        if !self.has(Protection::Closed) {
            forget_closed(record);
        }
        if !self.has(Protection::Counter) && reply == Reply::Ended(true) {
            *counter = 0;
        }
        forget_times(record);
        let is_new = matches!(request.kind, Kind::Join(_) | Kind::Take { .. });
        match is_in_quarantine && is_new {
            true => Reply::Busy { retry_after: Duration::ZERO },
            false => reply,
        }
    }

    /// Executes requests that end an attempt immediately.
    fn end_at_once(&self, state: &mut State) {
        let is_end = |request: &Request| request.kind.is_end();
        while let Some(index) = state.requests.iter().position(is_end) {
            self.execute(state, index, true, false);
        }
    }

    fn execute(&self, state: &mut State, index: usize, is_heard: bool, stays: bool) {
        let request = state.requests.remove(index);
        if stays {
            state.requests.push(request);
            state.copies -= 1;
        }
        let reply = self.apply(state, request);
        if request.kind.is_end() {
            state.clients[usize::from(request.from)].is_over[request.node] = true;
        } else if is_heard {
            state.hear(self, request, &reply);
        } else {
            state.losses -= 1;
        }
    }
}

fn forget_closed(record: &mut Record) {
    record.closed.clear();
    record.gate.take_if(|gate| gate.state == GateState::Closed);
}

/// Removes times that distinguish states with the same future: when the record forgets an attempt
/// that has ended. That is beyond the end of this world, even if the node's clock jumps.
fn forget_times(record: &mut Record) {
    if !record.closed.is_empty() {
        record.closed_until_ms = 2 * FAR_MS;
    }
    if let Some(gate) = &mut record.gate
        && gate.state == GateState::Closed
    {
        gate.until_ms = 2 * FAR_MS;
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let nodes = self.counters.map(|beyond| {
            let counter = if beyond > 0 { WALL_US + beyond } else { 0 };
            let record = Record::default();
            Node { record, counter, ahead: 0, quarantined_until: 0, is_behind: false }
        });
        let mut state = State {
            time: 0,
            nodes,
            clients: vec![Client::default(); usize::from(self.clients)],
            requests: Vec::new(),
            told: Vec::new(),
            was_overtaken: false,
            was_told_of_loss: false,
            jumps: self.jumps,
            crashes: self.crashes,
            losses: self.losses,
            copies: self.copies,
            others: self.others,
        };
        if self.is_held {
            let ballot = self.ballots.first().copied().unwrap_or_default();
            state.begin(self, 0, WALL_US + ballot);
            let is_first = |request: &Request| request.node < self.needed();
            while let Some(index) = state.requests.iter().position(is_first) {
                self.execute(&mut state, index, true, false);
            }
            if self.is_answered {
                state.requests.clear();
                state.clients[0].unanswered = [0; NODES];
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for (number, client) in (0..).zip(&state.clients) {
            match &client.phase {
                Phase::Idle if self.ballots.is_empty() && (number > 0 || state.time == 0) => {
                    events.push(Event::Begin(number, state.time * 1_000_000));
                    break; // one after the other, because they are all alike
                }
                Phase::Idle => {
                    events.extend(self.ballots.iter().map(|ballot| Event::Begin(number, *ballot)));
                    break;
                }
                Phase::Asking(_) | Phase::Committing(..) => events.push(Event::GiveUp(number)),
                Phase::Holding(lease) => {
                    events.push(Event::Leave(number));
                    if lease.renewals < self.renewals
                        && (self.end == 0 || state.time < lease.until)
                        && !state.is_renewing(number)
                    {
                        events.push(Event::Renew(number));
                    }
                }
                Phase::Ended => {}
            }
        }
        for (index, request) in state.requests.iter().enumerate() {
            let mut execute =
                |is_heard, stays| events.push(Event::Execute { index, is_heard, stays });
            // Only a client sends these again, and not after an answer.
            let is_single =
                matches!(request.kind, Kind::Claim(_) | Kind::Join(_) | Kind::Take { .. });
            execute(true, false);
            if state.copies > 0 && !is_single {
                execute(true, true);
            }
            if state.losses > 0 && !request.kind.is_end() {
                execute(false, false);
                if state.copies > 0 {
                    execute(false, true);
                }
            }
        }
        for node in 0..NODES {
            if state.jumps > 0 && !state.nodes[node].record.holders().is_empty() {
                events.push(Event::Jump(node));
            }
            if state.others > 0 {
                events.push(Event::Other(node));
            }
            // If all nodes are alike, it does not matter which one forgets.
            let may_forget = node == 0 || self.counters[0] > 0;
            let is_turn = !(self.in_turn && state.nodes.iter().any(|node| node.is_behind));
            let knows =
                state.nodes[node].record != Record::default() || state.nodes[node].counter > 0;
            if state.crashes > 0 && may_forget && is_turn && knows {
                events.push(Event::Forget(node));
            }
        }
        if state.time < self.end {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Begin(number, ballot) => state.begin(self, number, WALL_US + ballot),
            Event::Execute { index, is_heard, stays } => {
                self.execute(&mut state, index, is_heard, stays);
            }
            Event::Forget(node) => {
                state.crashes -= 1;
                state.nodes[node].record = Record::default();
                state.nodes[node].counter = 0;
                state.nodes[node].quarantined_until = state.time + self.quarantine();
                state.nodes[node].is_behind = self.in_turn;
            }
            Event::GiveUp(number) => state.give_up(self, number),
            Event::Jump(node) => {
                state.jumps -= 1;
                state.nodes[node].ahead += self.ttl;
            }
            Event::Leave(number) => state.leave(number),
            Event::Other(node) => {
                state.others -= 1;
                state.nodes[node].counter += OTHER;
            }
            Event::Renew(number) => state.renew(self, number),
            Event::Tick => {
                state.time += 1;
                let oldest = state.time.saturating_sub(self.delay);
                state.requests.retain(|request| request.sent >= oldest);
            }
        }
        if !self.ends_travel {
            self.end_at_once(&mut state);
        }
        // Their order means nothing.
        state.requests.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(IN_ORDER, |_, state: &State| {
                let tokens: Vec<FencingToken> = state.told.iter().map(|told| told.token).collect();
                let is_after =
                    |told: &super::state::Told| told.newest.is_none_or(|n| n < told.token);
                let is_new = |index: usize| !tokens[..index].contains(&tokens[index]);
                state.told.iter().all(is_after) && (0..tokens.len()).all(is_new)
            }),
            Property::always(PROVEN, |_, state: &State| !state.was_overtaken),
            Property::sometimes("one client is told after the other", |_, state: &State| {
                state.told.iter().any(|told| told.newest.is_some())
            }),
        ];
        if self.renewals > 0 {
            properties.push(Property::sometimes("a lease is extended", |_, state: &State| {
                state.clients.iter().any(Client::is_extended)
            }));
        }
        if self.crashes > 0 {
            properties.push(Property::sometimes("a hold is taken back", |_, state: &State| {
                let has_forgotten = |node: &usize| state.nodes[*node].quarantined_until > 0;
                let mut forgetful = (0..NODES).filter(has_forgotten);
                state.clients[0].is_extended() && forgetful.any(|node| state.holds(0, node))
            }));
        }
        if self.in_turn {
            properties.push(Property::always(KEPT, |_, state: &State| !state.was_told_of_loss));
            let have_all = |_: &Self, state: &State| {
                state.crashes == 0 && state.nodes.iter().all(|node| !node.is_behind)
            };
            properties.push(Property::sometimes("every node has caught up", have_all));
        }
        if self.end > 0 {
            let one = |_: &Self, state: &State| state.believers() <= 1;
            properties.push(Property::always(ONE_HOLDER, one));
        }
        if self.crashes == 0 {
            properties.push(Property::always(ENDED_STAYS_ENDED, |_, state: &State| {
                let stays = |(number, client): (u8, &Client)| {
                    (0..NODES).any(|node| client.is_over[node] && state.holds(number, node))
                };
                !(0..).zip(&state.clients).any(stays)
            }));
        }
        properties
    }
}
