//! Fuzzing targets for the replies of servers and the requests to them.

use std::time::Duration;

use leasehold_core::{
    Action, Answer, ClientId, HolderId, HolderInfo, Keep, LockName, Mode, Request,
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
    on.chain(layout.keep(std::slice::from_ref(&lease)).ok()).collect()
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
        drop(bundle::replies(&call.request, 3, value.clone()));
    }
    let _ = reply::time(value.clone());
    drop(role::field(value.clone(), "role"));
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

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn request(client: u128, mode: Mode) -> Request {
    Request::new(id(client), mode, HolderInfo::default())
}
