//! A lock of Redisson as its keys, and the messages in its channels.

use leasehold::store::redis_wire::{Layout, Redisson};
use leasehold_core::LockName;

use super::history::{History, Played};
use super::ours::Told;
use super::record::{Mode, Record};
use crate::place::{Expected, INBOXES, Keys, revoked, string};

/// The name of a lock, and its form in other names.
const NAMES: [(&str, &str); 2] = [("a", "{a}"), ("b{c}", "b{c}")];

pub(super) fn expected(history: &History, played: &Played) -> Expected {
    let (name, base) = NAMES[history.name];
    let layout = Redisson {
        prefix: String::new(),
        inboxes: INBOXES.to_owned(),
        sharded: false,
        fenced: history.fenced,
    };
    Expected {
        before: played.before.as_ref().map(|before| keys(before, name, base)),
        call: layout.act(&LockName::new(name).unwrap(), &played.action).unwrap(),
        now_us: played.now_us,
        reply: played.reply.clone(),
        messages: played.told.iter().flat_map(|told| messages(told, base)).collect(),
        after: keys(&played.after, name, base),
    }
}

fn messages(told: &Told, base: &str) -> Vec<(String, String)> {
    match told {
        Told::Free { wrote } => {
            let all = wrote.then_some(("redisson_rwlock", "1"));
            let told = [Some(("redisson_lock__channel", "0")), all, Some(("redisson_rwlock", "0"))];
            let told = told.into_iter().flatten();
            told.map(|(channel, payload)| (format!("{channel}:{base}"), payload.to_owned()))
                .collect()
        }
        Told::Revoked { id, force } => vec![revoked(*id, *force)],
    }
}

/// A lock as its keys.
pub(super) fn keys(record: &Record, name: &str, base: &str) -> Keys {
    let mut keys = Keys::new();
    for ((owner, number), entry) in &record.entries {
        let key = format!("{base}:{owner}:rwlock_timeout:{number}");
        keys.insert(key, string(entry.end_ms as i64, entry.value.text()));
    }
    if record.counter > 0 {
        let key = format!("redisson_lock_token:{base}");
        keys.insert(key, string(-1, record.counter.to_string()));
    }
    if !record.is_free() {
        let mode = record.mode.map(|mode| if mode == Mode::Read { "read" } else { "write" });
        let mode = mode.map(|mode| ("mode".to_owned(), mode.to_owned()));
        let owners = record.owners.iter().map(|(owner, count)| (owner.clone(), count.to_string()));
        keys.insert(name.to_owned(), (record.end_ms as i64, owners.chain(mode).collect()));
    }
    keys
}
