//! Fuzzing targets for the replies of servers and the requests to them.

use std::time::Duration;

use leasehold_core::{
    Action, Answer, ClientId, End, HolderId, HolderInfo, Keep, LockName, Mode, Request, Take,
};
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

/// A call whose arguments differ from those of its layout.
#[derive(Debug)]
pub struct Scene {
    /// The calls before it.
    pub before: Vec<Call<Answer>>,
    /// The call as made by its layout.
    pub call: Call<Answer>,
    /// The changed arguments.
    pub args: Vec<Vec<u8>>,
    /// Calls of other clients after it, which must be answered.
    pub after: Vec<Call<Answer>>,
}

/// Every layout, with a short prefix.
fn layouts() -> [Box<dyn Layout>; 4] {
    let prefix = "p:".to_owned();
    let redisson = |fenced| Redisson {
        prefix: prefix.clone(),
        inboxes: prefix.clone(),
        sharded: false,
        fenced,
    };
    [
        Box::new(Native::new(&*prefix, false)),
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
    let lease = (name.clone(), Keep::new(request(1, Mode::Exclusive), TTL));
    let on = actions.iter().filter_map(|action| layout.act(&name, action).ok());
    on.chain([layout.keep(std::slice::from_ref(&lease))]).collect()
}

/// Reads bytes as the reply to each kind of call.
pub(in crate::store) fn reply(bytes: &[u8], actions: &[Action]) {
    if let Ok(value) = redis::parse_redis_value(bytes) {
        read(&value, actions);
    }
}

/// Reads replies one after the other. The first byte says how many bytes arrive together, or that
/// all do. Each reply must have the same length and value as redis-rs finds.
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

/// Reads bytes as a reply that a script has packed.
pub(in crate::store) fn packed_reply(bytes: &[u8], actions: &[Action]) {
    read(&Value::BulkString(bytes.to_vec()), actions);
}

fn read(value: &Value, actions: &[Action]) {
    for call in layouts().iter().flat_map(|layout| calls(&**layout, actions)) {
        drop(call.answer(value.clone()));
        drop(bundle::replies(&call, 3, value.clone()));
    }
    let _ = reply::time(value.clone());
    drop(role::field(value, "role"));
    let asked = Address { host: "asked".to_owned(), port: 6379 };
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

/// Reads bytes as a message in an inbox, and as names of keys.
pub(in crate::store) fn message(bytes: &[u8]) {
    let _ = reply::message(bytes);
    for layout in layouts() {
        let _ = layout.is_lock(bytes, 1);
        if let Some(name) = layout.name(bytes) {
            assert!(bytes.starts_with(&layout.key(&name)), "one name, one key");
        }
    }
    if let Ok(details) = std::str::from_utf8(bytes) {
        let asked = Address { host: "/asked".to_owned(), port: 0 };
        drop(cluster::slots::redirection(details, &asked));
    }
}

/// Makes a [`Scene`]. The first byte selects the layout, the second the calls before, and the third
/// the call. The rest changes its arguments: which argument, from which position on, how many
/// bytes, and their new values. A shorter argument ends at its last byte.
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

fn request(client: u128, mode: Mode) -> Request {
    Request::new(id(client), mode, HolderInfo::default())
}

fn acquire(client: u128, mode: Mode) -> Action {
    Action::Take(Take::new(request(client, mode), TTL).with_waits(true))
}

/// The acquires before the call: none, the caller first, another client first, or two readers
/// first.
fn acquires(which: u8) -> Vec<Action> {
    let (writer, reader) = (Mode::Exclusive, Mode::Shared);
    match which % 4 {
        0 => Vec::new(),
        1 => vec![acquire(1, writer), acquire(3, writer)],
        2 => vec![acquire(2, writer), acquire(1, writer)],
        _ => vec![acquire(1, reader), acquire(2, reader), acquire(3, writer), acquire(4, reader)],
    }
}

/// The calls after it: all holders release, waiters are granted, and one more client comes.
fn releases() -> Vec<Action> {
    let release = |client| Action::End(End::new(request(client, Mode::Exclusive)));
    let last = [Action::Look { limit: 9 }, acquire(5, Mode::Exclusive)];
    (1..=4).map(release).chain(last).collect()
}
