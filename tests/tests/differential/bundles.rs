//! One call for many names does to each what a separate call would have done: replies, records and
//! messages, whatever state the names are in.

use std::cell::RefCell;
use std::time::Duration;

use leasehold::store::redis_wire::{Call, Layout, key};
use leasehold_core::{Acquire, Action, Addressed, Answer, ClientId, HolderId, LockName, Mode};
use leasehold_testkit::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use redis::{Cmd, ConnectionLike as _, Value};

use super::history::START_US;
use super::server::Server;

/// How many bundles are compared, and of how many names each may be.
const BUNDLES: u32 = 600;
const MOST_NAMES: usize = 9;

/// When the bundle is called: all earlier requests come in the half minute before.
const NOW_US: u64 = START_US + 30_000_000;

/// The history of one name of a bundle, and the request for it.
#[derive(Clone, Debug)]
struct Name {
    /// The earlier requests, and how many µs before the bundle each one came.
    before: Vec<(u64, Action)>,
    damage: Option<Damage>,
    acquire: Action,
    inspect: Action,
    release: Action,
}

/// The damage that somebody has done to a key.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A field has another value.
    Field(&'static str, &'static [u8]),
    /// A field of the record is gone.
    Lost(&'static str),
    /// The key is of another type.
    Text,
}

fn names() -> impl Strategy<Value = Vec<Name>> {
    let before = prop::collection::vec((0u64..30_000_000, any_action()), 0..6);
    let damage = prop_oneof![6 => Just(None), 1 => damage().prop_map(Some)];
    let inspect = (0u32..4).prop_map(|limit| Action::Inspect { limit });
    let name = (before, damage, acquire(), inspect, release()).prop_map(
        |(mut before, damage, acquire, inspect, release)| {
            before.sort_by_key(|(ago_us, _)| std::cmp::Reverse(*ago_us));
            Name { before, damage, acquire, inspect, release }
        },
    );
    prop::collection::vec(name, 1..=MOST_NAMES)
}

fn damage() -> impl Strategy<Value = Damage> {
    let field = prop::sample::select(vec!["s", "q", "t", "p", "p\0", "theirs"]);
    let bytes: Vec<&[u8]> =
        vec![b"", b"\x02", b"\x03\0garbage", &[0xff; 200], &[3; 26], &[3, 1, 1]];
    prop_oneof![
        Just(Damage::Text),
        field.clone().prop_map(Damage::Lost),
        (field, prop::sample::select(bytes)).prop_map(|(field, bytes)| Damage::Field(field, bytes)),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    let rest = (id(), any::<bool>()).prop_map(|(id, unanswered)| Action::Cancel { id, unanswered });
    prop_oneof![4 => acquire(), 2 => release(), 1 => rest]
}

fn acquire() -> impl Strategy<Value = Action> {
    let mode = prop_oneof![
        3 => Just(Mode::Exclusive),
        1 => Just(Mode::Shared),
        1 => Just(Mode::Permits { count: 1, capacity: 2 }),
    ];
    let ttl = (1u64..60_000).prop_map(Duration::from_millis);
    (id(), mode, ttl, any::<bool>(), 0u8..20).prop_map(|(id, mode, ttl, wait, late)| {
        let not_after_us = if late == 0 { NOW_US - 1 } else { NOW_US };
        let request = Acquire::new(id, mode, ttl).with_wait(wait).with_nonce(7);
        Action::Acquire(request.with_not_after(not_after_us))
    })
}

fn release() -> impl Strategy<Value = Action> {
    let cooldown = prop_oneof![3 => Just(0u64), 1 => 1u64..60_000].prop_map(Duration::from_millis);
    (id(), cooldown, prop::bool::weighted(0.2))
        .prop_map(|(id, cooldown, unanswered)| Action::Release { id, cooldown, unanswered })
}

fn id() -> impl Strategy<Value = HolderId> {
    (1u128..4, 1u64..3).prop_map(|(client, attempt)| HolderId { client: ClientId(client), attempt })
}

/// All traces of a call: its reply, its writes and its messages.
#[derive(Debug, PartialEq)]
struct Traces {
    replies: Vec<Result<Value, String>>,
    keys: Vec<(Value, Vec<(Value, Value)>)>,
    told: Vec<Addressed>,
}

impl Server {
    fn call(&self, index: usize, action: &Action) -> Call<Answer> {
        self.layout.act(&name(index), action).unwrap()
    }

    /// The reply to a command; a refusal is a reply like others.
    fn ask(&mut self, command: &Cmd) -> Value {
        let replies = self.connection.req_packed_commands(&command.get_packed_command(), 0, 1);
        replies.unwrap().remove(0)
    }

    /// Brings the keys into the described state.
    fn prepare(&mut self, names: &[Name]) {
        for (index, described) in names.iter().enumerate() {
            let key = key::key("lh:", &name(index));
            self.ask(redis::cmd("DEL").arg(&key));
            for (ago_us, action) in &described.before {
                let call = self.call(index, action);
                self.ask(&self.command(&call, NOW_US - ago_us));
            }
            match described.damage {
                None => {}
                Some(Damage::Field(field, bytes)) => {
                    self.ask(redis::cmd("HSET").arg(&key).arg(field).arg(bytes));
                }
                Some(Damage::Lost(field)) => {
                    drop(self.ask(redis::cmd("HDEL").arg(&key).arg(field)));
                }
                Some(Damage::Text) => drop(self.ask(redis::cmd("SET").arg(&key).arg("theirs"))),
            }
        }
        self.heard();
    }

    /// The values of the keys, and the messages of the calls.
    fn traces(&mut self, names: usize, replies: Vec<Value>) -> Traces {
        let keys = (0..names).map(|index| {
            let key = key::key("lh:", &name(index));
            let expires = self.ask(redis::cmd("PEXPIRETIME").arg(&key));
            let mut fields = match self.ask(redis::cmd("HGETALL").arg(&key)) {
                Value::Map(fields) => fields,
                Value::Array(list) => {
                    list.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
                }
                other => vec![(other, self.ask(redis::cmd("GET").arg(&key)))],
            };
            fields.sort_by_key(|field| format!("{field:?}"));
            (expires, fields)
        });
        let keys = keys.collect();
        let mut told = self.heard();
        // The messages of one name are in order; those of different names are not.
        told.sort_by_key(|told: &Addressed| format!("{told:?}"));
        Traces { replies: replies.into_iter().map(said).collect(), keys, told }
    }

    fn compare_bundle(
        &mut self,
        names: &[Name],
        action: fn(&Name) -> &Action,
    ) -> Result<(), String> {
        let calls = names.iter().enumerate().map(|(index, name)| self.call(index, action(name)));
        let calls: Vec<_> = calls.collect();
        self.prepare(names);
        let replies = calls.iter().map(|call| self.command(call, NOW_US)).collect::<Vec<_>>();
        let replies = replies.iter().map(|command| self.ask(command)).collect();
        let one_by_one = self.traces(names.len(), replies);
        self.prepare(names);
        let replies = match self.ask(&self.bundle(&calls, NOW_US)) {
            Value::Array(replies) => replies,
            reply => vec![reply],
        };
        let together = self.traces(names.len(), replies);
        match one_by_one == together {
            true => Ok(()),
            false => Err(format!("one by one: {one_by_one:#?}\ntogether: {together:#?}")),
        }
    }
}

/// The content of a reply, without the words of an error behind its code.
fn said(reply: Value) -> Result<Value, String> {
    match reply {
        Value::ServerError(refusal) => Err(refusal.code().to_owned()),
        reply => Ok(reply),
    }
}

fn name(index: usize) -> LockName {
    LockName::new(format!("name {index}")).unwrap()
}

#[test]
fn a_call_for_many_names_does_to_each_what_a_separate_call_does() {
    let server = RefCell::new(Server::start(RedisServer::options()));
    let config = Config { cases: BUNDLES, failure_persistence: None, ..Config::default() };
    let compare = |names: Vec<Name>| {
        let mut server = server.borrow_mut();
        let acquires = server.compare_bundle(&names, |name| &name.acquire);
        let inspections = server.compare_bundle(&names, |name| &name.inspect);
        let releases = server.compare_bundle(&names, |name| &name.release);
        acquires.and(inspections).and(releases).map_err(TestCaseError::fail)
    };
    match TestRunner::new(config).run(&names(), compare) {
        Ok(()) => {}
        Err(TestError::Fail(why, names)) => panic!("{why}\nthe names: {names:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
