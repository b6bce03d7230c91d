//! Translates a step into a call of its script.
//!
//! All keys of one record have the record's name as their hash tag. So in a cluster they live in
//! one slot, and one deduction is always one script.

use leasehold::fence::Fence;
use leasehold::store::RedisScript;

use super::script;
use crate::model::numbers::{NumbersAction, Plan};
use crate::model::stock::{Line, StockAction};
use crate::model::{Action, Id, Request};

/// A script with its keys and arguments.
pub(super) struct ScriptCall {
    pub(super) script: &'static RedisScript,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) args: Vec<Vec<u8>>,
}

/// The call that does a step.
pub(super) fn call(prefix: &str, request: &Request) -> ScriptCall {
    let mut args = Vec::new();
    let (script, parts): (&'static RedisScript, &[&str]) = match &request.action {
        Action::Numbers(NumbersAction::Take { count, plan }) => {
            push_plan(&mut args, *count, *plan);
            (&script::NUMBERS, &["numbers"])
        }
        Action::Stock(action) => {
            push_fence(&mut args, request.fence.as_ref());
            (push_stock(&mut args, action), &["stock", "orders", "times"])
        }
    };
    let keys = parts.iter().map(|part| key(prefix, part, &request.name)).collect();
    ScriptCall { script, keys, args }
}

/// The key of one part of a record. No lock's key has a `%` before a letter, so the keys never
/// collide.
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

fn push_plan(args: &mut Args, count: u64, plan: Plan) {
    push_number(args, count);
    push_number(args, plan.step_us);
    push(args, plan.day_offset_us.map(|offset_us| offset_us.to_string()).unwrap_or_default());
}

fn push_stock(args: &mut Args, action: &StockAction) -> &'static RedisScript {
    match action {
        StockAction::Cancel { order, remember_us } => {
            push(args, "cancel");
            push(args, order.as_str());
            push_number(args, *remember_us);
            &script::STOCK_SETTLE
        }
        StockAction::Confirm { order } => {
            push(args, "confirm");
            push(args, order.as_str());
            push_number(args, 0);
            &script::STOCK_SETTLE
        }
        StockAction::Read { items } => {
            args.extend([b"read".to_vec(), Vec::new(), b"0".to_vec()]);
            items.iter().for_each(|item| push(args, item.as_str()));
            &script::STOCK_SETTLE
        }
        StockAction::Restock { order, lines, remember_us } => {
            push(args, "restock");
            push(args, order.as_str());
            push(args, "");
            push_number(args, *remember_us);
            push_number(args, 0);
            push_lines(args, lines);
            &script::STOCK_TAKE
        }
        StockAction::Take { order, lines, note, remember_us, reserve_us } => {
            push(args, "take");
            push(args, order.as_str());
            push(args, note);
            push_number(args, *remember_us);
            push_number(args, *reserve_us);
            push_lines(args, lines);
            &script::STOCK_TAKE
        }
    }
}

fn push_lines(args: &mut Args, lines: &[Line]) {
    for Line { item, quantity } in lines {
        push(args, item.as_str());
        push_number(args, *quantity);
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
}
