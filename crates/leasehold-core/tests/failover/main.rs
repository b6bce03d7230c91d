//! A lock on a primary and two replicas, in every order in which its steps can happen: copies that
//! reach replicas when they please, replicas that are promoted whether they have them or not, and a
//! primary that does not know yet that it no longer is one.
//!
//! It shows what to wait for before a grant is entered: all replicas that can be promoted, and no
//! less. Servers are [`leasehold_core::model::step`] itself. No time passes, so that a lease never
//! ends: what is shown does not rest on clocks.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::model::{DEFAULT_RETENTION, Record, step};
use leasehold_core::{Acquire, Action, ClientId, Facts, HolderId, Mode, Now, Reply};
use stateright::{Checker, HasDiscoveries, Model, Property};

const ONE_HOLDER: &str = "at most one client has entered";

const SERVERS: usize = 3;
const CLIENTS: u8 = 2;

/// 2026-01-01T00:00Z, for both clocks.
const NOW_US: u64 = 1_767_225_600_000_000;

/// The bounds of the search.
#[derive(Clone, Debug)]
struct World {
    /// How many replicas must have acknowledged a grant before it is entered.
    acknowledged: usize,
    /// How many times a replica is promoted.
    failovers: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    servers: [Server; SERVERS],
    clients: [Phase; CLIENTS as usize],
    /// The server that was promoted last.
    newest: Option<usize>,
    failovers: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct Server {
    record: Record,
    /// Whose replica it is; a primary, or one that takes itself for one, is nobody's.
    follows: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Phase {
    /// It was refused.
    Ended,
    /// It relies on its lease.
    Entered,
    /// This server has granted, and too few of its replicas have said that they know.
    Granted(usize),
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A client asks a server, perhaps by an address that is no longer right.
    Ask(u8, usize),
    /// A client hears that enough replicas know of its grant.
    Enter(u8),
    /// A server becomes the replica of the one that was promoted last.
    Follow(usize),
    /// A replica becomes a primary, with what it knows.
    Promote(usize),
    /// All that its primary has done reaches a replica.
    Replicate(usize),
}

fn id(client: u8) -> HolderId {
    HolderId { client: ClientId(client.into()), attempt: 1 }
}

impl State {
    /// Replicas of a server that know of a client's hold.
    fn acknowledged(&self, server: usize, client: u8) -> usize {
        let knows = |replica: &&Server| {
            replica.follows == Some(server)
                && replica.record.holds.iter().any(|hold| hold.id == id(client))
        };
        self.servers.iter().filter(knows).count()
    }

    /// How many clients rely on their lease.
    fn entered(&self) -> usize {
        self.clients.iter().filter(|phase| **phase == Phase::Entered).count()
    }

    fn ask(&mut self, client: u8, server: usize) {
        let action = Action::Acquire(Acquire {
            id: id(client),
            mode: Mode::Exclusive,
            ttl: Duration::from_secs(30),
            wait: false,
            nonce: 0,
            not_after_us: u64::MAX,
            ballot_us: None,
            facts: Facts::default(),
        });
        let now = Now { lease_us: NOW_US, token_us: NOW_US };
        let record = &mut self.servers[server].record;
        let reply = step(record, now, DEFAULT_RETENTION, &action).reply;
        self.clients[usize::from(client)] = match reply {
            Reply::Granted(_) => Phase::Granted(server),
            _ => Phase::Ended,
        };
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let replica = Server { record: Record::default(), follows: Some(0) };
        let primary = Server { follows: None, ..replica.clone() };
        vec![State {
            servers: [primary, replica.clone(), replica],
            clients: [Phase::Idle; CLIENTS as usize],
            newest: None,
            failovers: self.failovers,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        let primaries: Vec<usize> =
            (0..SERVERS).filter(|server| state.servers[*server].follows.is_none()).collect();
        for (client, phase) in (0..).zip(&state.clients) {
            match *phase {
                Phase::Idle => {
                    events.extend(primaries.iter().map(|server| Event::Ask(client, *server)));
                }
                Phase::Granted(server)
                    if state.acknowledged(server, client) >= self.acknowledged =>
                {
                    events.push(Event::Enter(client));
                }
                Phase::Ended | Phase::Entered | Phase::Granted(_) => {}
            }
        }
        for (index, server) in state.servers.iter().enumerate() {
            let follows_newest = server.follows == state.newest;
            if state.newest.is_some_and(|newest| newest != index && !follows_newest) {
                events.push(Event::Follow(index));
            }
            if server.follows.is_some() {
                events.push(Event::Replicate(index));
                if state.failovers > 0 {
                    events.push(Event::Promote(index));
                }
            }
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Ask(client, server) => state.ask(client, server),
            Event::Enter(client) => state.clients[usize::from(client)] = Phase::Entered,
            Event::Follow(index) => {
                let primary = state.newest?;
                // It begins with all that its new primary knows, and nothing else.
                state.servers[index] = state.servers[primary].clone();
                state.servers[index].follows = Some(primary);
            }
            Event::Promote(index) => {
                state.failovers -= 1;
                state.newest = Some(index);
                state.servers[index].follows = None;
            }
            Event::Replicate(index) => {
                let primary = state.servers[index].follows?;
                state.servers[index].record = state.servers[primary].record.clone();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_HOLDER, |_, state: &State| state.entered() <= 1),
            Property::sometimes("a client enters after a failover", |_, state: &State| {
                state.entered() == 1 && state.failovers == 0
            }),
        ]
    }
}

fn fails_in(world: World) {
    let found = HasDiscoveries::AnyOf(BTreeSet::from([ONE_HOLDER]));
    let checker = world.clone().checker().finish_when(found).spawn_bfs().join();
    let path = checker.assert_any_discovery(ONE_HOLDER);
    println!("{world:?}: {:?}", path.into_actions());
}

#[test]
fn d2_what_all_replicas_have_acknowledged_is_held_by_one_whoever_is_promoted() {
    let world = World { acknowledged: 2, failovers: 2 };
    let checker = world.clone().checker().spawn_bfs().join();
    println!("{world:?}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

#[test]
fn d1_what_no_replica_has_acknowledged_is_held_by_two_after_a_failover() {
    fails_in(World { acknowledged: 0, failovers: 1 });
}

#[test]
fn d3_what_one_of_two_replicas_has_acknowledged_is_held_by_two_if_the_other_is_promoted() {
    fails_in(World { acknowledged: 1, failovers: 1 });
}
