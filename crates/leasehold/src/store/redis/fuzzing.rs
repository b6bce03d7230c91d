//! What servers say, and what they are asked, as targets of fuzzing.

use std::time::Duration;

use leasehold_core::{Acquire, Action, Answer, ClientId, HolderId, LockName, Mode, RenewLease};
use redis::Value;

use super::connection::bundle;
use super::connection::call::Call;
use super::connection::info::Info;
use super::connection::resp::Frame;
use super::layout::native::Native;
use super::layout::plain::Plain;
use super::layout::redisson::Redisson;
use super::layout::{Layout, reply};
use super::options::Address;
use super::topology::{cluster, role};

const TTL: Duration = Duration::from_secs(30);

/// A call whose arguments are not what its layout would say.
#[derive(Debug)]
pub struct Scene {
    /// What is done before it.
    pub before: Vec<Call<Answer>>,
    /// The call as its layout would make it.
    pub call: Call<Answer>,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
    /// What others ask then, and are answered.
    pub after: Vec<Call<Answer>>,
}

/// Every layout, with a short prefix.
fn layouts() -> [Box<dyn Layout>; 4] {
    let prefix = "p:".to_owned();
    let retention = Duration::from_secs(120);
    let redisson = |fenced| Redisson {
        prefix: prefix.clone(),
        inboxes: prefix.clone(),
        sharded: false,
        fenced,
    };
    [
        Box::new(Native { prefix: prefix.clone(), retention }),
        Box::new(Plain { prefix: prefix.clone() }),
        Box::new(redisson(false)),
        Box::new(redisson(true)),
    ]
}

fn name() -> Option<LockName> {
    LockName::new("a").ok()
}

/// A call of every kind.
fn calls(layout: &dyn Layout, actions: &[Action]) -> Vec<Call<Answer>> {
    let Some(name) = name() else { return Vec::new() };
    let lease = RenewLease::new(name.clone(), id(1), TTL, Mode::Exclusive);
    let on = actions.iter().filter_map(|action| layout.act(&name, action).ok());
    on.chain([layout.renew(std::slice::from_ref(&lease))]).collect()
}

/// A reply as it comes, to whatever was asked.
pub(in crate::store) fn reply(bytes: &[u8], actions: &[Action]) {
    if let Ok(value) = redis::parse_redis_value(bytes) {
        read(&value, actions);
    }
}

/// Replies one after the other, of which as many bytes arrive at once as the first byte says, or
/// all: each is as long as redis-rs says, and says the same.
pub(in crate::store) fn stream(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let read = |piece: usize| {
        let (mut frame, mut begin, mut values) = (Frame::default(), 0, Vec::new());
        for end in (0..stream.len()).step_by(piece.max(1)).chain([stream.len()]) {
            while let Some((value, length)) = match frame.reply(&stream[begin..end]) {
                Ok(found) => found,
                Err(_) => return values,
            } {
                let (shown, whole) = (format!("{value:?}"), &stream[begin..begin + length]);
                let said = redis::parse_redis_value(whole).map(|value| format!("{value:?}"));
                assert_eq!(said.as_ref(), Ok(&shown));
                assert!(redis::parse_redis_value(&whole[..length - 1]).is_err(), "{shown}");
                values.push(shown);
                begin += length;
            }
        }
        values
    };
    assert_eq!(read(piece.into()), read(stream.len()));
}

/// A reply that a script has packed.
pub(in crate::store) fn packed_reply(bytes: &[u8], actions: &[Action]) {
    read(&Value::BulkString(bytes.to_vec()), actions);
}

fn read(value: &Value, actions: &[Action]) {
    for call in layouts().iter().flat_map(|layout| calls(&**layout, actions)) {
        drop(call.answer(value.clone()));
    }
    let _ = reply::time(value.clone());
    drop(bundle::replies(3, value.clone()));
    drop(role::field(value, "role"));
    let asked = Address::Tcp { host: "asked".to_owned(), port: 6379 };
    if let Some(map) = cluster::slots::Map::parse(value.clone(), &asked) {
        assert!(!map.nodes().is_empty(), "one is asked");
        for slot in [0, 1, 8191, 16_383] {
            assert_eq!(map.primary(slot).is_some(), map.shard(slot).is_some());
        }
    }
    let info = Info::of(value.clone());
    let _ = (info.version(), info.is_replica(), info.number("maxmemory"));
    drop(info.followers());
}

/// What is published in an inbox, and names of keys that were found.
pub(in crate::store) fn message(bytes: &[u8]) {
    let _ = reply::message(bytes);
    for layout in layouts() {
        let _ = layout.is_lock(bytes, true);
        if let Some(name) = layout.name(bytes) {
            assert_eq!(layout.key(&name), bytes, "one name, one key");
        }
    }
    if let Ok(details) = std::str::from_utf8(bytes) {
        let asked = Address::Unix("asked".into());
        drop(cluster::slots::redirection(details, &asked));
    }
}

/// The first byte says which layout it is, the next what was done before, and the third which call
/// it is. The rest changes its arguments: which one, from where on, how many bytes, and those that
/// stand there instead. A shorter argument ends at its last byte.
pub(in crate::store) fn scene(bytes: &[u8], actions: &[Action]) -> Option<Scene> {
    let (&[layout, before, call], mut changes) = bytes.split_first_chunk()?;
    let (layouts, name) = (layouts(), name()?);
    let layout = &*layouts[usize::from(layout) % layouts.len()];
    let mut calls = calls(layout, actions);
    let call = calls.swap_remove(usize::from(call) % calls.len());
    let mut args = call.args.clone();
    while let Some((&change, rest)) = changes.split_first_chunk() {
        let [index, from, count] = change.map(usize::from);
        let (new, rest) = rest.split_at(rest.len().min(count));
        changes = rest;
        let index = index % args.len().max(1);
        let argument = args.get_mut(index)?;
        let from = argument.len().min(from);
        let to = argument.len().min(from + count);
        argument.splice(from..to, new.iter().copied());
        if new.len() < count {
            argument.truncate(from + new.len());
        }
    }
    let on = |actions: Vec<Action>| {
        actions.iter().filter_map(|action| layout.act(&name, action).ok()).collect()
    };
    Some(Scene { before: on(acquires(before)), call, args, after: on(releases()) })
}

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn acquire(client: u128, mode: Mode) -> Action {
    Action::Acquire(Acquire::new(id(client), mode, TTL).with_wait(true))
}

/// Who holds and who waits: nobody, the one who asks, another one, or two readers.
fn acquires(which: u8) -> Vec<Action> {
    let (writer, reader) = (Mode::Exclusive, Mode::Shared);
    match which % 4 {
        0 => Vec::new(),
        1 => vec![acquire(1, writer), acquire(3, writer)],
        2 => vec![acquire(2, writer), acquire(1, writer)],
        _ => vec![acquire(1, reader), acquire(2, reader), acquire(3, writer), acquire(4, reader)],
    }
}

/// All of them let go, waiters are granted, and one more comes.
fn releases() -> Vec<Action> {
    let (cooldown, unanswered) = (Duration::ZERO, false);
    let release = |client| Action::Release { id: id(client), cooldown, unanswered };
    let last = [Action::Inspect { limit: 9 }, acquire(5, Mode::Exclusive)];
    (1..=4).map(release).chain(last).collect()
}
