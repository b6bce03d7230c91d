//! Translates a step into a call of its script.
//!
//! All keys of one record have the record's name as their hash tag. So in a cluster they live in
//! one slot, and one deduction is always one script.

use leasehold::fence::Fence;
use leasehold::store::RedisScript;

use super::script;
use crate::model::numbers::Plan;
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
    let (script, parts, args): (&'static RedisScript, &[&str], _) = match &request.action {
        Action::Numbers { count, plan: Plan { day_offset_us, step_us } } => {
            let offset = day_offset_us.map(|offset_us| offset_us.to_string()).unwrap_or_default();
            let args = [count.to_string(), step_us.to_string(), offset].map(String::into_bytes);
            (&script::NUMBERS, &["numbers"], args.to_vec())
        }
        Action::Stock(action) => {
            let mut args = match &request.fence {
                Some(Fence { lock, token }) => {
                    vec![lock.as_str().into(), token.get().to_be_bytes().into()]
                }
                None => vec![Vec::new(); 2],
            };
            let (script, words) = stock(action);
            args.extend(words.into_iter().map(String::into_bytes));
            (script, &["stock", "orders", "times"], args)
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

/// The script that does a step on a stock, and its arguments after the fence.
fn stock(action: &StockAction) -> (&'static RedisScript, Vec<String>) {
    let settle = |verb: &str, order: &str, remember_us: u64| {
        let args = [verb, order, &remember_us.to_string()].map(str::to_owned);
        (&*script::STOCK_SETTLE, args.to_vec())
    };
    let take = |verb: &str, order: &Id, note: &str, times: [u64; 2], lines: &[Line]| {
        let mut args = [verb, order.as_str(), note].map(str::to_owned).to_vec();
        args.extend(times.map(|us| us.to_string()));
        for Line { item, quantity } in lines {
            args.extend([item.to_string(), quantity.to_string()]);
        }
        (&*script::STOCK_TAKE, args)
    };
    match action {
        StockAction::Cancel { order, remember_us } => {
            settle("cancel", order.as_str(), *remember_us)
        }
        StockAction::Confirm { order } => settle("confirm", order.as_str(), 0),
        StockAction::Read { items } => {
            let (script, mut args) = settle("read", "", 0);
            args.extend(items.iter().map(Id::to_string));
            (script, args)
        }
        StockAction::Restock { order, lines, remember_us } => {
            take("restock", order, "", [*remember_us, 0], lines)
        }
        StockAction::Take { order, lines, note, remember_us, reserve_us } => {
            take("take", order, note, [*remember_us, *reserve_us], lines)
        }
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
