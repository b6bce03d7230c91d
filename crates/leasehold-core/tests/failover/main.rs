//! A lock on a primary and two replicas, in every order in which its steps can happen. Copies reach
//! replicas at any time, and replicas are promoted with or without them. An old primary may not
//! know yet that it was replaced. A client may ask about its attempt again before it has an answer,
//! and each answer waits for separate acknowledgements.
//!
//! The search shows what to wait for before a client relies on its grant: all replicas that can be
//! promoted. It also shows that only a client that ignores all later answers about a grant may take
//! it back. Servers are [`leasehold_core::model::step`] itself. No time passes, so no lease ends:
//! the result does not depend on clocks.

#[path = "../search/mod.rs"]
mod search;

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::model::{Record, Rules, step};
use leasehold_core::{
    Action, ClientId, End, HolderId, HolderInfo, Mode, Now, Reply, Request, Take,
};
use stateright::{Model, Property};

use self::search::{breaks, broken, holds_in};

const ONE_HOLDER: &str = "at most one client has entered";

const SERVERS: usize = 3;
const CLIENTS: usize = 2;

/// 2026-01-01T00:00Z, for both clocks.
const NOW_US: u64 = 1_767_225_600_000_000;

/// The bounds of the search.
#[derive(Clone, Debug)]
struct World {
    /// How many replicas must have acknowledged a grant before its client relies on it.
    acknowledged: usize,
    /// How many times a replica is promoted.
    failovers: u8,
    /// How many times each client asks with its attempt; all of these questions may be open at the
    /// same time.
    questions: u8,
    taken_back: TakenBack,
}

/// Who takes back a grant that too few replicas have acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TakenBack {
    /// Its client, when it gives the attempt up. From then on, it ignores all answers.
    ByItsClient,
    /// The same, but answers to earlier requests are still believed.
    ByItsClientThatBelieves,
    /// Each question, once the answer to it is "too few".
    ByEachQuestion,
    Never,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    servers: [Server; SERVERS],
    clients: [Client; CLIENTS],
    /// The server that was promoted last.
    newest: Option<usize>,
    failovers: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct Server {
    record: Record,
    counter: u64,
    /// How many writes the server has, its own or its primary's.
    writes: u8,
    /// The primary of this replica; a server that is a primary, or believes so, has none.
    follows: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct Client {
    /// Questions that it may still ask.
    questions: u8,
    /// Questions that were granted and wait for acknowledgements.
    out: Vec<Question>,
    /// The servers at which its grant will be taken back.
    taking_back: BTreeSet<usize>,
    gave_up: bool,
    /// Whether it relies on its lease.
    entered: bool,
}

/// A question that a server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
struct Question {
    server: usize,
    /// The number of writes of a replica that has this write.
    writes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A client takes the lock at a server, perhaps by an address that is no longer right.
    Ask(usize, usize),
    /// One question of a client is answered: enough replicas know of the grant.
    Enter(usize, usize),
    /// A server becomes the replica of the one that was promoted last.
    Follow(usize),
    /// A client does not ask any more.
    GiveUp(usize),
    /// A replica becomes a primary, with what it knows.
    Promote(usize),
    /// All writes of its primary reach a replica.
    Replicate(usize),
    /// One question of a client has waited too long for too few replicas.
    Short(usize, usize),
    /// A grant that was not acknowledged is taken back at a server.
    TakeBack(usize, usize),
}

fn id(client: usize) -> HolderId {
    HolderId { client: ClientId(client as u128), attempt: 1 }
}

fn request(client: usize) -> Request {
    Request::new(id(client), Mode::Exclusive, HolderInfo::default())
}

fn take(client: usize) -> Action {
    Action::Take(Take::new(request(client), Duration::from_secs(30)).with_waits(true))
}

impl State {
    /// The replicas that have the write of a question.
    fn acknowledged(&self, question: &Question) -> usize {
        let has_it = |replica: &&Server| {
            replica.follows == Some(question.server) && replica.writes >= question.writes
        };
        self.servers.iter().filter(has_it).count()
    }

    /// How many clients rely on their lease.
    fn entered(&self) -> usize {
        self.clients.iter().filter(|client| client.entered).count()
    }

    fn apply(&mut self, server: usize, action: &Action) -> Reply {
        let now = Now { lease_us: NOW_US, token_us: NOW_US };
        let server = &mut self.servers[server];
        server.writes += 1;
        step(&mut server.record, &mut server.counter, now, Rules::USUAL, action).reply
    }

    fn ask(&mut self, client: usize, server: usize) {
        let reply = self.apply(server, &take(client));
        let writes = self.servers[server].writes;
        let client = &mut self.clients[client];
        client.questions -= 1;
        if matches!(reply, Reply::Granted(_)) {
            client.out.push(Question { server, writes });
        }
    }

    /// It begins with the data of its new primary, and nothing else. Clients that wait for its
    /// answer are cut off.
    fn follow(&mut self, index: usize, primary: usize) {
        self.servers[index] = Server { follows: Some(primary), ..self.servers[primary].clone() };
        for client in &mut self.clients {
            client.out.retain(|question| question.server != index);
            client.taking_back.remove(&index);
        }
    }
}

impl World {
    /// The next actions of a client, and the possible results of its questions.
    fn client_actions(&self, state: &State, index: usize, events: &mut Vec<Event>) {
        let client = &state.clients[index];
        events.extend(client.taking_back.iter().map(|server| Event::TakeBack(index, *server)));
        for (number, question) in client.out.iter().enumerate() {
            if state.acknowledged(question) >= self.acknowledged {
                events.push(Event::Enter(index, number));
            } else if self.taken_back == TakenBack::ByEachQuestion {
                events.push(Event::Short(index, number));
            }
        }
        if client.entered || client.gave_up {
            return;
        }
        let has_asked = client.questions < self.questions;
        if has_asked && self.gives_up() {
            events.push(Event::GiveUp(index));
        }
        if client.questions > 0 {
            let is_primary = |server: &usize| state.servers[*server].follows.is_none();
            for server in (0..SERVERS).filter(is_primary) {
                events.push(Event::Ask(index, server));
            }
        }
    }

    fn gives_up(&self) -> bool {
        match self.taken_back {
            TakenBack::ByItsClient | TakenBack::ByItsClientThatBelieves => true,
            TakenBack::ByEachQuestion | TakenBack::Never => false,
        }
    }

    /// A client gives its attempt up, and will tell every server that may know it.
    fn give_up(&self, client: &mut Client) {
        client.taking_back = client.out.iter().map(|question| question.server).collect();
        client.gave_up = true;
        if self.taken_back == TakenBack::ByItsClient {
            client.out.clear();
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let replica = Server { record: Record::default(), counter: 0, writes: 0, follows: Some(0) };
        let primary = Server { follows: None, ..replica.clone() };
        let client = Client {
            questions: self.questions,
            out: Vec::new(),
            taking_back: BTreeSet::new(),
            gave_up: false,
            entered: false,
        };
        vec![State {
            servers: [primary, replica.clone(), replica],
            clients: std::array::from_fn(|_| client.clone()),
            newest: None,
            failovers: self.failovers,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for index in 0..CLIENTS {
            self.client_actions(state, index, events);
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
            Event::Enter(client, number) => {
                let client = &mut state.clients[client];
                client.entered = true;
                client.out.remove(number);
                if self.taken_back != TakenBack::ByEachQuestion {
                    // The answers of the others do not matter any more.
                    client.out.clear();
                }
            }
            Event::Short(client, number) => {
                let client = &mut state.clients[client];
                let question = client.out.remove(number);
                client.taking_back.insert(question.server);
            }
            Event::GiveUp(client) => self.give_up(&mut state.clients[client]),
            Event::TakeBack(client, server) => {
                state.clients[client].taking_back.remove(&server);
                state.apply(server, &Action::End(End::new(request(client))));
            }
            Event::Follow(index) => state.follow(index, state.newest?),
            Event::Promote(index) => {
                state.failovers -= 1;
                state.newest = Some(index);
                state.servers[index].follows = None;
            }
            Event::Replicate(index) => {
                let primary = &state.servers[state.servers[index].follows?];
                let follows = state.servers[index].follows;
                state.servers[index] = Server { follows, ..primary.clone() };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_HOLDER, |_, state: &State| state.entered() <= 1),
            Property::sometimes("a client enters after all failovers", |_, state: &State| {
                state.entered() == 1 && state.failovers == 0
            }),
        ]
    }
}

/// Clients that ask once, and wait for this many acknowledgements.
fn once(acknowledged: usize, failovers: u8) -> World {
    World { acknowledged, failovers, questions: 1, taken_back: TakenBack::Never }
}

/// Clients that ask again before they have an answer.
fn again(taken_back: TakenBack, questions: u8, failovers: u8) -> World {
    World { acknowledged: 2, failovers, questions, taken_back }
}

#[test]
fn d2_what_all_replicas_have_acknowledged_is_held_by_one_whichever_is_promoted() {
    holds_in(&once(2, 2));
}

#[test]
fn d18_what_its_client_takes_back_and_does_not_believe_is_held_by_one_however_often_it_asks() {
    holds_in(&again(TakenBack::ByItsClient, 3, 0));
    holds_in(&again(TakenBack::ByItsClient, 2, 1));
}

broken! {
    fn d1_what_no_replica_has_acknowledged_is_held_by_two_after_a_failover();
    once(0, 1), ONE_HOLDER;

    fn d3_what_one_of_two_replicas_has_acknowledged_is_held_by_two_if_the_other_is_promoted();
    once(1, 1), ONE_HOLDER;

    fn d18_what_one_question_takes_back_and_another_confirms_is_held_by_two();
    again(TakenBack::ByEachQuestion, 2, 0), ONE_HOLDER;

    fn d18_what_its_client_takes_back_and_goes_on_believing_is_held_by_two();
    again(TakenBack::ByItsClientThatBelieves, 2, 0), ONE_HOLDER;
}
