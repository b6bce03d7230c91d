//! The world that is searched: three nodes that are [`leasehold_core::model::step`] itself, clients
//! that count with [`leasehold_core::quorum`] itself, and a network that loses, delays, reorders
//! and repeats. A request that is never executed is a lost one, so no other event loses requests.

use std::time::Duration;

use leasehold_core::model::{Record, Rules, step};
use leasehold_core::{Acquire, Action, FencingToken, Mode, Reclaim, Reply};
use stateright::{Model, Property};

use super::scenario::{Event, NODES, Protection, World};
use super::state::{Client, Kind, Node, Phase, Request, START_US, State, WALL_US, id};

pub(crate) const ENDED_STAYS_ENDED: &str = "nothing granted to an attempt that has ended stays";
pub(crate) const IN_ORDER: &str = "tokens are distinct and in the order of real time";
pub(crate) const KEPT: &str = "who renews while nodes forget in turn is not told of a loss";
pub(crate) const ONE_HOLDER: &str = "at most one client may believe that it holds";
pub(crate) const PROVEN: &str = "who extends its lease was not overtaken when it asked";

impl World {
    fn action(&self, request: &Request) -> Action {
        let (id, ttl) = (id(request.from), Duration::from_secs(self.ttl));
        let until_us = |second: u64| START_US + second * 1_000_000;
        match request.kind {
            Kind::Acquire { ballot_us } => Action::Acquire(
                Acquire::new(id, Mode::Exclusive, ttl)
                    .with_not_after(until_us(request.sent + self.delay + 1))
                    .with_ballot(Some(ballot_us)),
            ),
            Kind::Cancel => Action::Cancel { id, unanswered: true },
            Kind::Commit(token) => Action::Commit { id, token, ttl },
            Kind::Reclaim { token, until } => {
                let request =
                    Acquire::new(id, Mode::Exclusive, ttl).with_not_after(until_us(until));
                Action::Reclaim(Reclaim::new(token, request))
            }
            Kind::Release { unanswered } => {
                Action::Release { id, cooldown: Duration::ZERO, unanswered }
            }
            Kind::Renew => Action::Renew { id, ttl },
        }
    }

    /// A node executes a request: the model itself.
    fn apply(&self, state: &mut State, request: &Request) -> Reply {
        let action = self.action(request);
        let time = state.time;
        let node = &mut state.nodes[request.node];
        // The script of the acquire checks for a quarantine before anything else.
        let is_refused =
            matches!(request.kind, Kind::Acquire { .. }) && time < node.quarantined_until;
        if is_refused && self.has(Protection::RefusalFirst) {
            return Reply::Gone;
        }
        let now = node.now(time);
        let reply = step(&mut node.record, now, Rules::new(), &action).reply;
        self.take_away(&mut node.record, &reply);
        forget_times(&mut node.record);
        if is_refused { Reply::Gone } else { reply }
    }

    fn take_away(&self, record: &mut Record, reply: &Reply) {
        if !self.has(Protection::Tombstone) {
            record.tombstones.clear();
        }
        if !self.has(Protection::LastToken) && *reply == Reply::Released {
            record.last_token_us = 0;
        }
    }

    /// Executes requests that end an attempt immediately.
    fn end_at_once(&self, state: &mut State) {
        let is_end =
            |request: &Request| matches!(request.kind, Kind::Cancel | Kind::Release { .. });
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
        let reply = self.apply(state, &request);
        if matches!(request.kind, Kind::Cancel | Kind::Release { .. }) {
            state.clients[usize::from(request.from)].is_over[request.node] = true;
        } else if is_heard {
            state.hear(self, request, &reply);
        } else {
            state.losses -= 1;
        }
    }
}

/// Removes times that distinguish states with the same future: when a record may be collected, when
/// a hold began, and when a tombstone ends. All are beyond the end of this world.
fn forget_times(record: &mut Record) {
    record.collect_at_us = 0;
    record.holds.iter_mut().for_each(|hold| hold.since_us = 0);
    record.tombstones.iter_mut().for_each(|tombstone| tombstone.until_us = u64::MAX);
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let nodes = self.last_tokens.map(|beyond| {
            let last_token_us = if beyond > 0 { WALL_US + beyond } else { 0 };
            let record = Record { last_token_us, ..Record::default() };
            Node { record, ahead: 0, quarantined_until: 0, is_behind: false }
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
        };
        if self.is_held {
            let ballot = self.ballots.first().copied().unwrap_or_default();
            state.begin(self, 0, WALL_US + ballot);
            let is_first = |request: &Request| request.node < self.needed();
            while let Some(index) = state.requests.iter().position(is_first) {
                self.execute(&mut state, index, true, false);
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
            let is_single = matches!(request.kind, Kind::Acquire { .. } | Kind::Reclaim { .. });
            execute(true, false);
            if state.copies > 0 && !is_single {
                execute(true, true);
            }
            if state.losses > 0 && !matches!(request.kind, Kind::Cancel | Kind::Release { .. }) {
                execute(false, false);
                if state.copies > 0 {
                    execute(false, true);
                }
            }
        }
        for node in 0..NODES {
            if state.jumps > 0 && !state.nodes[node].record.holds.is_empty() {
                events.push(Event::Jump(node));
            }
            // If all nodes are alike, it does not matter which one forgets.
            let may_forget = node == 0 || self.last_tokens[0] > 0;
            let is_turn = !(self.in_turn && state.nodes.iter().any(|node| node.is_behind));
            let knows = state.nodes[node].record != Record::default();
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
                state.nodes[node].quarantined_until = state.time + self.quarantine();
                state.nodes[node].is_behind = self.in_turn;
            }
            Event::GiveUp(number) => state.give_up(self, number),
            Event::Jump(node) => {
                state.jumps -= 1;
                state.nodes[node].ahead += self.ttl;
            }
            Event::Leave(number) => state.leave(number),
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
