//! The holders of a lock of Redisson, from the reply of inspect.lua.

use std::time::Duration;

use leasehold_core::{FencingToken, ForeignHolder, Mode, Status};

use super::names;
use crate::store::redis::layout::codec::Reader;
use crate::store::redis::layout::plain::value;

/// The status from a reply; `None` if the reply is malformed.
pub(crate) fn status(packed: &mut Reader<'_>, now_us: u64) -> Option<Status> {
    let (is_there, reads) = (packed.flag()?, packed.flag()?);
    let (ends_us, last_token) = (packed.number()?, packed.number()?);
    let left = |ends_us: u64| Duration::from_micros(ends_us.saturating_sub(now_us));
    let mut status = Status::default();
    let mut others = Vec::new();
    let count = packed.word()?;
    for _ in 0..count {
        let (field, entries, value) =
            (packed.counted()?.0, packed.counted()?.0, packed.counted()?.0);
        let entry_ends_us = packed.number()?;
        let field = String::from_utf8_lossy(field);
        if reads && entry_ends_us == 0 {
            continue; // a dead reader; another reader lives
        }
        match value::parse(value, now_us, left(entry_ends_us)) {
            Some(mut holder) => {
                holder.mode = mode_of(&field);
                status.holders.push(holder);
            }
            None => others.push(named(&field, reads, &String::from_utf8_lossy(entries))),
        }
    }
    let is_foreign = is_there && (status.holders.is_empty() || !others.is_empty());
    status.foreign = is_foreign.then(|| {
        let value = match others.is_empty() {
            true => "a hash without owners".to_owned(),
            false => others.join(", "),
        };
        let mode = if reads { Mode::Shared } else { Mode::Exclusive };
        ForeignHolder::new(value, (ends_us > 0).then(|| left(ends_us))).with_mode(mode)
    });
    let newest = status.holders.iter().map(|holder| holder.token).max();
    let counted = (last_token > 0).then(|| FencingToken::from_micros(last_token));
    status.last_token = counted.or(newest);
    Some(status)
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
