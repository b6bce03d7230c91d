//! The holders of a lock of Redisson, from the reply of look.lua.

use leasehold_core::{Answer, ForeignHolder, Mode, Now, Reply, Status, StoreError};
use redis::{FromRedisValue, Value};

use super::names;
use crate::store::redis::layout::plain::value;
use crate::store::redis::layout::{reply, shared};

/// An owner's field, its number of entries, and the value and the end of the key of the last entry.
type Owner = (Vec<u8>, Vec<u8>, Vec<u8>, i64);

/// Decodes the reply of `redisson/look.lua`.
pub(crate) fn looked(reply: Value) -> Result<Answer, StoreError> {
    let found = <(Value, i64, u8, Vec<Owner>)>::from_redis_value(reply).ok();
    let found = found.and_then(|(asked, end_ms, reads, owners)| {
        Some((reply::time(asked)?, end_ms, reads == 1, owners)) //
    });
    let (now, end_ms, reads, owners) = found.ok_or_else(reply::unexpected_reply)?;
    Ok(Answer::new(now, Reply::Status(Box::new(status(now, end_ms, reads, owners)))))
}

fn status(now: Now, end_ms: i64, reads: bool, owners: Vec<Owner>) -> Status {
    let mut status = Status::default();
    let mut others = Vec::new();
    for (field, entries, value, entry_end_ms) in owners {
        let field = String::from_utf8_lossy(&field);
        let entry_left = shared::ttl_left(entry_end_ms, now);
        if reads && entry_left.is_none() {
            continue; // a dead reader; another reader lives
        }
        match value::parse(&value, now, entry_left.unwrap_or_default()) {
            Some(mut holder) => {
                holder.mode = mode_of(&field);
                status.holders.push(holder);
            }
            None => others.push(named(&field, reads, &String::from_utf8_lossy(&entries))),
        }
    }
    let is_foreign = end_ms != -2 && (status.holders.is_empty() || !others.is_empty());
    status.foreign = is_foreign.then(|| {
        let value = match others.is_empty() {
            true => "a hash without owners".to_owned(),
            false => others.join(", "),
        };
        let mode = if reads { Mode::Shared } else { Mode::Exclusive };
        ForeignHolder::new(value, shared::ttl_left(end_ms, now)).with_mode(mode)
    });
    status
}

fn mode_of(field: &str) -> Mode {
    if field.ends_with(":write") { Mode::Exclusive } else { Mode::Shared }
}

/// An owner of Redisson, named as in Redisson's own messages.
fn named(field: &str, reads: bool, entries: &str) -> String {
    if !names::is_owner(field) {
        return field.chars().filter(|c| !c.is_control()).take(64).collect();
    }
    let (node, thread) = field.split_once(':').unwrap_or((field, ""));
    let (thread, does) = match thread.strip_suffix(":write") {
        Some(thread) => (thread, " writes"),
        None if reads => (thread, " reads"),
        None => (thread, ""),
    };
    let again = if entries == "1" { String::new() } else { format!(" ({entries} entries)") };
    format!("Redisson node {node} thread {thread}{does}{again}")
}
