//! The data parts on Redis: a step as a call of its script, and the script's reply.
//!
//! All keys of one record carry the record's name as their hash tag, so in a cluster they live in
//! one slot, and one deduction is always one script there.

use leasehold_core::data::numbers::{self, Plan};
use leasehold_core::data::stock::{self, Line, State};
use leasehold_core::data::{Action, Answer, Fence, Id, Reply, Request, cell, queue};
use leasehold_core::{BoxFuture, FencingToken, StoreError};
use redis::Value;

use super::Redis;
use super::connection::call::Call;
use super::layout::native::Keyspace;
use super::layout::reply::foreign;
use super::layout::script::Script;
use crate::store::DataStore;

impl DataStore for Redis {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move { self.topology.run(&call(&self.keyspace, &request)).await })
    }
}

/// The call that does a step.
pub fn call(keyspace: &Keyspace, request: &Request) -> Call<Answer> {
    let mut args = Vec::new();
    let (script, parts): (_, &[&str]) = match &request.action {
        Action::Cell(action) => {
            push_fence(&mut args, request.fence.as_ref());
            push_cell(&mut args, action);
            (Script::Cell, &["cell"])
        }
        Action::Numbers(numbers::Action::Take { count, plan }) => {
            push_plan(&mut args, *count, *plan);
            (Script::Numbers, &["numbers"])
        }
        Action::Queue(action) => {
            push_fence(&mut args, request.fence.as_ref());
            (push_queue(&mut args, action), &["places", "queue", "results", "kept"])
        }
        Action::Stock(action) => {
            push_fence(&mut args, request.fence.as_ref());
            (push_stock(&mut args, action), &["stock", "orders", "times"])
        }
    };
    let keys = parts.iter().map(|part| key(&keyspace.prefix, part, &request.name)).collect();
    Call::new(script.text(), keys, args, answer)
}

/// The key of one part of a record. No lock's key has a `%` before a letter, so none is met.
fn key(prefix: &str, part: &str, name: &Id) -> Vec<u8> {
    let tag = name.as_str().replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
    format!("{prefix}%{part}:{{{tag}}}").into_bytes()
}

type Args = Vec<Vec<u8>>;

fn push(args: &mut Args, bytes: impl AsRef<[u8]>) {
    args.push(bytes.as_ref().to_vec());
}

fn push_number(args: &mut Args, number: u64) {
    push(args, number.to_string());
}

fn push_fence(args: &mut Args, fence: Option<&Fence>) {
    match fence {
        Some(Fence { lock, token }) => {
            push(args, lock.as_str());
            push(args, token.get().to_be_bytes());
        }
        None => args.extend([Vec::new(), Vec::new()]),
    }
}

fn push_cell(args: &mut Args, action: &cell::Action) {
    match action {
        cell::Action::Read => push(args, "read"),
        cell::Action::Write { version, value } => {
            push(args, "write");
            push(args, version.map(|version| version.to_string()).unwrap_or_default());
            push(args, value);
        }
    }
}

fn push_plan(args: &mut Args, count: u64, plan: Plan) {
    push_number(args, count);
    push_number(args, plan.step_us);
    push(args, plan.day_offset_us.map(|offset_us| offset_us.to_string()).unwrap_or_default());
}

fn push_queue(args: &mut Args, action: &queue::Action) -> Script {
    match action {
        queue::Action::Ask { id } => {
            push(args, "ask");
            push(args, id.as_str());
        }
        queue::Action::Finish { results, remember_us } => {
            push(args, "finish");
            push_number(args, *remember_us);
            for (id, result) in results {
                push(args, id.as_str());
                push(args, result);
            }
        }
        queue::Action::Push(entry) => {
            push(args, entry.id.as_str());
            push(args, &entry.payload);
            return Script::QueuePush;
        }
        queue::Action::Take { limit } => {
            push(args, "take");
            push_number(args, *limit);
        }
    }
    Script::QueueDrain
}

fn push_stock(args: &mut Args, action: &stock::Action) -> Script {
    match action {
        stock::Action::Cancel { order, remember_us } => {
            push(args, "cancel");
            push(args, order.as_str());
            push_number(args, *remember_us);
            Script::StockSettle
        }
        stock::Action::Confirm { order } => {
            push(args, "confirm");
            push(args, order.as_str());
            push_number(args, 0);
            Script::StockSettle
        }
        stock::Action::Read { items } => {
            args.extend([b"read".to_vec(), Vec::new(), b"0".to_vec()]);
            items.iter().for_each(|item| push(args, item.as_str()));
            Script::StockSettle
        }
        stock::Action::Restock { order, lines, remember_us } => {
            push(args, "restock");
            push(args, order.as_str());
            push(args, "");
            push_number(args, *remember_us);
            push_number(args, 0);
            push_lines(args, lines);
            Script::StockTake
        }
        stock::Action::Take { order, lines, note, remember_us, reserve_us } => {
            push(args, "take");
            push(args, order.as_str());
            push(args, note);
            push_number(args, *remember_us);
            push_number(args, *reserve_us);
            push_lines(args, lines);
            Script::StockTake
        }
    }
}

fn push_lines(args: &mut Args, lines: &[Line]) {
    for Line { item, quantity } in lines {
        push(args, item.as_str());
        push_number(args, *quantity);
    }
}

/// The answer that a script's reply stands for.
///
/// # Errors
///
/// [`Corrupt`](leasehold_core::StoreErrorKind::Corrupt) if it is none of our scripts'.
pub fn answer(reply: Value) -> Result<Answer, StoreError> {
    parse(reply).ok_or_else(foreign)
}

/// The server's time, a word, what belongs to that.
fn parse(reply: Value) -> Option<Answer> {
    let Value::Array(items) = reply else { return None };
    let mut items = Items(items.into_iter());
    let now_us = items.number()?;
    let reply = match items.bytes()?.as_slice() {
        b"block" => Reply::Numbers(numbers::Reply::Block {
            first: items.number()?,
            day: items.day()?,
            day_left_us: items.number()?,
        }),
        b"changed" => Reply::Cell(cell::Reply::Changed { version: items.number()? }),
        b"done" => Reply::Queue(queue::Reply::Done(items.bytes()?)),
        b"early" => Reply::Numbers(numbers::Reply::Early { retry_after_us: items.number()? }),
        b"entries" => Reply::Queue(queue::Reply::Entries(items.entries()?)),
        b"fenced" => Reply::Fenced(items.token()?),
        b"finished" => Reply::Queue(queue::Reply::Finished(items.number()?)),
        b"found" => {
            Reply::Cell(cell::Reply::Found { version: items.number()?, value: items.bytes()? })
        }
        b"full" => Reply::Queue(queue::Reply::Full),
        b"levels" => Reply::Stock(stock::Reply::Levels(items.numbers()?)),
        b"mismatch" => Reply::Stock(stock::Reply::Mismatch),
        b"other_plan" => Reply::Numbers(numbers::Reply::Mismatch),
        b"overflow" => Reply::Stock(stock::Reply::Overflow),
        b"pending" => Reply::Queue(queue::Reply::Pending),
        b"settled" => Reply::Stock(items.settled()?),
        b"short" => Reply::Stock(stock::Reply::Short {
            item: Id::new("item", items.text()?).ok()?,
            available: items.number()?,
        }),
        b"unknown" => Reply::Stock(stock::Reply::Unknown),
        b"unknown_entry" => Reply::Queue(queue::Reply::Unknown),
        b"used_up" => Reply::Numbers(numbers::Reply::UsedUp),
        b"written" => Reply::Cell(cell::Reply::Written { version: items.number()? }),
        _ => return None,
    };
    (items.0.len() == 0).then_some(Answer { now_us, reply })
}

/// The elements of an array, taken one by one.
struct Items(std::vec::IntoIter<Value>);

impl Items {
    fn integer(&mut self) -> Option<i64> {
        match self.0.next()? {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.integer()?.try_into().ok()
    }

    fn numbers(&mut self) -> Option<Vec<u64>> {
        (0..self.0.len()).map(|_| self.number()).collect()
    }

    /// −1 says that there is none.
    fn day(&mut self) -> Option<Option<u64>> {
        match self.integer()? {
            -1 => Some(None),
            day => Some(Some(day.try_into().ok()?)),
        }
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        match self.0.next()? {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn token(&mut self) -> Option<FencingToken> {
        FencingToken::from_number(u64::from_be_bytes(self.bytes()?.try_into().ok()?))
    }

    fn entries(&mut self) -> Option<Vec<queue::Entry>> {
        let count = self.0.len() / 2;
        let entry = |_| {
            let id = Id::new("entry", self.text()?).ok()?;
            Some(queue::Entry { id, payload: self.bytes()? })
        };
        (0..count).map(entry).collect()
    }

    fn settled(&mut self) -> Option<stock::Reply> {
        let state = match self.bytes()?.as_slice() {
            b"D" => State::Deducted,
            b"R" => State::Reserved,
            b"S" => State::Restocked,
            b"B" => State::Returned,
            _ => return None,
        };
        let (note, left_us) = (self.text()?, self.number()?);
        Some(stock::Reply::Settled { state, note, left_us, again: self.number()? == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_record_share_one_hash_tag_that_no_name_can_break() {
        for (name, tag) in [("shop", "{shop}"), ("a}b{c%", "{a%7Db%7Bc%25}")] {
            let name = Id::new("stock", name).unwrap();
            for part in ["stock", "orders", "times"] {
                let key = String::from_utf8(key("lh:", part, &name)).unwrap();
                assert_eq!(key, format!("lh:%{part}:{tag}"));
            }
        }
    }

    #[test]
    fn a_foreign_reply_is_no_answer() {
        let word = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for reply in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Int(1), word("hello")]),
            Value::Array(vec![Value::Int(1), word("full"), Value::Int(1)]),
            Value::Array(vec![Value::Int(1), word("found"), Value::Int(-1), word("")]),
            Value::Array(vec![Value::Int(1), word("fenced"), word("12345")]),
        ] {
            assert_eq!(parse(reply.clone()), None, "{reply:?}");
        }
    }
}
