//! Runs random histories of data steps on the model and on the scripts of a real server. It
//! compares the replies after every step, and the stored records at the end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use leasehold::fence::Fence;
use leasehold::store::{RedisItem, RedisScript};
use leasehold::{FencingToken, LockName};
use leasehold_testkit::RedisServer;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use redis::{Connection, ConnectionLike as _, Value};

use super::call::call;
use super::reply::answer;
use super::script;
use crate::model::numbers::{self, Plan, Sequence};
use crate::model::stock::{self, Line, Stock, StockAction};
use crate::model::{Action, Answer, Id, Reply, Request};

/// The clock of the scripts.
const CLOCK: &str = include_str!("lua/clock.lua");

/// The clock of the scripts under test reads the time from their last argument.
const TEST_CLOCK: &str = "local now = tonumber(table.remove(ARGV))\n";

/// The minimum number of steps to compare; `LEASEHOLD_DIFFERENTIAL_STEPS` sets another number.
const STEPS: u64 = 100_000;

/// 2026-01-01T15:59Z: midnight in China is a minute away.
const START_US: u64 = 1_767_283_140_000_000;

const SECOND_US: u64 = 1_000_000;

#[derive(Clone, Debug)]
struct Step {
    later_us: u64,
    fence: Option<(bool, u64)>,
    action: Action,
}

fn id(what: &str, number: u32) -> Id {
    Id::new("id", format!("{what} {number}")).unwrap()
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    btree_map(0..4u32, 1..5u64, 1..4).prop_map(|lines| {
        let line = |(item, quantity)| Line { item: id("item", item), quantity };
        lines.into_iter().map(line).collect()
    })
}

fn order() -> impl Strategy<Value = Id> {
    prop_oneof![4 => 0..6u32, 1 => 0..500u32].prop_map(|number| id("order", number))
}

fn remember_us() -> impl Strategy<Value = u64> {
    prop_oneof![Just(SECOND_US), Just(20 * SECOND_US)]
}

fn stock_action() -> impl Strategy<Value = StockAction> {
    use StockAction::{Cancel, Confirm, Read, Restock, Take};
    let reserve = prop_oneof![Just(0), Just(SECOND_US), Just(3 * SECOND_US)];
    prop_oneof![
        6 => (order(), lines(), "[a-ü]{0,3}", remember_us(), reserve).prop_map(
            |(order, lines, note, remember_us, reserve_us)| {
                Take { order, lines, note, remember_us, reserve_us }
            }
        ),
        2 => (order(), lines(), remember_us())
            .prop_map(|(order, lines, remember_us)| Restock { order, lines, remember_us }),
        2 => (order(), remember_us())
            .prop_map(|(order, remember_us)| Cancel { order, remember_us }),
        2 => order().prop_map(|order| Confirm { order }),
        1 => Just(Read { items: (0..5).map(|item| id("item", item)).collect() }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let step_us = prop_oneof![Just(0), Just(7), Just(1000), Just(333_333)];
    let take = (1..50u64, step_us).prop_map(|(count, step_us)| (count, step_us));
    prop_oneof![
        6 => stock_action().prop_map(Action::Stock),
        3 => (take, prop_oneof![Just(None), Just(Some(8 * 3600 * SECOND_US as i64))]).prop_map(
            |((count, step_us), day_offset_us)| {
                Action::Numbers { count, plan: Plan { day_offset_us, step_us } }
            }
        ),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let later = prop_oneof![
        8 => 0..300_000u64,
        1 => Just(SECOND_US),
        1 => Just(30 * SECOND_US),
    ];
    let fence = prop_oneof![4 => Just(None), 1 => (any::<bool>(), 0..6u64).prop_map(Some)];
    let step = (later, fence, action()).prop_map(|(later_us, fence, action)| Step {
        later_us,
        fence,
        action,
    });
    vec(step, 1..300)
}

/// The records of the model.
#[derive(Default)]
struct Records {
    sequences: BTreeMap<Id, Option<Sequence>>,
    stock: Stock,
}

/// A fence whose token's low half sorts differently from its high half.
fn fence((other, number): (bool, u64)) -> Fence {
    let lock = LockName::new(if other { "other" } else { "lock" }).unwrap();
    let number = ((number / 2) << 32) + (7 - number % 2);
    Fence { lock, token: FencingToken::from_number(number).unwrap() }
}

fn name(action: &Action) -> Id {
    match action {
        // Most steps use one sequence per plan; the others share one sequence, whose plan may
        // differ.
        Action::Numbers { count, plan } if count % 8 > 0 => {
            Id::new("sequence", format!("{plan:?}")).unwrap()
        }
        Action::Numbers { .. } | Action::Stock(_) => Id::new("name", "a{b}").unwrap(),
    }
}

impl Records {
    fn step(&mut self, now_us: u64, request: &Request) -> Reply {
        let fence = request.fence.as_ref();
        match &request.action {
            Action::Numbers { count, plan } => {
                let sequence = self.sequences.entry(request.name.clone()).or_default();
                Reply::Numbers(numbers::step(sequence, now_us, *count, *plan))
            }
            Action::Stock(action) => stock::step(&mut self.stock, now_us, fence, action)
                .map_or_else(Reply::Fenced, Reply::Stock),
        }
    }

    /// The sizes of the stored records, in the order of [`Server::sizes`].
    fn sizes(&self) -> [usize; 3] {
        let stock = self.stock.levels.len() + self.stock.fences.0.len();
        let orders = self.stock.orders.iter().count();
        [stock, orders, orders]
    }
}

/// The items of a script's reply.
fn items(reply: Value) -> Vec<RedisItem> {
    let Value::Array(values) = reply else { panic!("no list: {reply:?}") };
    let item = |value| match value {
        Value::BulkString(bytes) => RedisItem::Bytes(bytes),
        Value::Int(number) => RedisItem::Number(number),
        other => panic!("no item: {other:?}"),
    };
    values.into_iter().map(item).collect()
}

struct Server {
    connection: Connection,
    sha1: Vec<String>,
    _redis: RedisServer,
}

impl Server {
    fn start() -> Self {
        let redis = RedisServer::start().unwrap();
        let mut connection = redis.connection().unwrap();
        let mut load = |script: &RedisScript| {
            let source = script.source().replace(CLOCK, TEST_CLOCK);
            redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap()
        };
        let sha1 = script::all().into_iter().map(&mut load).collect();
        Self { connection, sha1, _redis: redis }
    }

    fn compare(&mut self, steps: &[Step]) -> Result<(), String> {
        let (mut records, mut now_us, mut expected) = (Records::default(), START_US, Vec::new());
        let mut pipeline = redis::pipe();
        pipeline.cmd("FLUSHALL");
        for step in steps {
            now_us += step.later_us;
            let request = Request {
                name: name(&step.action),
                fence: step.fence.map(fence),
                action: step.action.clone(),
            };
            expected.push(Answer { now_us, reply: records.step(now_us, &request) });
            let call = call("lh:", &request);
            let number = script::all().iter().position(|script| std::ptr::eq(*script, call.script));
            let sha1 = &self.sha1[number.unwrap()];
            let (keys, args) = (&call.keys, &call.args);
            pipeline.cmd("EVALSHA").arg(sha1).arg(keys.len()).arg(keys).arg(args).arg(now_us);
        }
        let packed = pipeline.get_packed_pipeline();
        let replies = self.connection.req_packed_commands(&packed, 0, steps.len() + 1);
        let replies = replies.map_err(|error| error.to_string())?.into_iter().skip(1);
        for ((step, expected), reply) in steps.iter().zip(&expected).zip(replies) {
            let text = format!("{reply:?}");
            let found =
                answer(items(reply)).map_err(|error| format!("{step:?}: {error}: {text}"))?;
            if found != *expected {
                return Err(format!("{step:?}:\n model {expected:?}\nscript {found:?}"));
            }
        }
        let (model, script) = (records.sizes(), self.sizes());
        if model != script {
            return Err(format!("kept at the end: model {model:?}, script {script:?}"));
        }
        Ok(())
    }

    fn sizes(&mut self) -> [usize; 3] {
        let parts = [("HLEN", "stock"), ("HLEN", "orders"), ("ZCARD", "times")];
        parts.map(|(command, part)| {
            let key = format!("lh:%{part}:{{a%7Bb%7D}}");
            redis::cmd(command).arg(key).query(&mut self.connection).unwrap()
        })
    }
}

#[test]
fn the_data_scripts_mean_what_the_model_means() {
    let wanted = std::env::var("LEASEHOLD_DIFFERENTIAL_STEPS").map_or(STEPS, |number| {
        number.parse().expect("LEASEHOLD_DIFFERENTIAL_STEPS is a whole number")
    });
    let (server, compared) = (RefCell::new(Server::start()), Cell::new(0));
    while compared.get() < wanted {
        let config = Config { cases: 20, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&steps(), |steps| {
            compared.set(compared.get() + steps.len() as u64);
            server.borrow_mut().compare(&steps).map_err(TestCaseError::fail)
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, steps)) => panic!("{why}\nthe history: {steps:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
    }
    println!("{} steps compared", compared.get());
}

#[test]
fn more_old_records_than_one_step_may_collect_are_collected_alike() {
    let take = |number| Step {
        later_us: 0,
        fence: None,
        action: Action::Stock(StockAction::Take {
            order: id("order", number),
            lines: vec![Line { item: id("item", 0), quantity: 1 }],
            note: String::new(),
            remember_us: SECOND_US,
            reserve_us: if number % 3 == 0 { SECOND_US } else { 0 },
        }),
    };
    let restock = StockAction::Restock {
        order: id("delivery", 0),
        lines: vec![Line { item: id("item", 0), quantity: 1000 }],
        remember_us: SECOND_US,
    };
    let read = |later_us| Step {
        later_us,
        fence: None,
        action: Action::Stock(StockAction::Read { items: vec![id("item", 0)] }),
    };
    let begin = Step { later_us: 0, fence: None, action: Action::Stock(restock) };
    let mut steps: Vec<_> = std::iter::once(begin).chain((0..300).map(take)).collect();
    steps.push(read(SECOND_US));
    steps.extend((0..20).map(|_| read(0)));
    steps.extend((0..20).map(|_| read(SECOND_US)));
    Server::start().compare(&steps).unwrap();
}
