//! The real server's side of a history: the scripts of ours, and all keys there are after each.

use std::collections::BTreeMap;

use leasehold::store::redis::wire::{Redisson, key, message};
use leasehold_core::{LockName, Message};
use leasehold_testkit::RedisServer;
use redis::{Connection, Msg, Value};

use super::history::{History, Played};
use super::ours::Told;
use super::record::{Mode, Record};
use crate::server::Server;

/// The name of a lock, and what stands for it in other names.
const NAMES: [(&str, &str); 2] = [("a", "{a}"), ("b{c}", "b{c}")];

/// What the channels of clients begin with.
const INBOXES: &str = "lh:";

/// Reads all keys: each with when it ends, and with its fields or its value.
const DUMP: &str = r"#!lua flags=no-writes
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local is_hash = redis.call('TYPE', key).ok == 'hash'
  local value = is_hash and redis.call('HGETALL', key) or { '', redis.call('GET', key) }
  all[#all + 1] = { key, redis.call('PEXPIRETIME', key), value }
end
return all
";

/// All keys: when each ends in ms, or -1, and its fields; a string is one field without a name.
pub(super) type Keys = BTreeMap<String, (i64, BTreeMap<String, String>)>;

/// A server with the scripts on it, and a connection that hears everything.
pub(crate) struct Place {
    server: Server,
    hears: Connection,
    dump: String,
}

impl Place {
    pub(crate) fn start() -> Self {
        let mut server = Server::start(RedisServer::options());
        let mut hears = server.redis.connection().unwrap();
        redis::cmd("PSUBSCRIBE").arg("*").exec(&mut hears).unwrap();
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(DUMP).query(&mut server.connection);
        Self { server, hears, dump: load.unwrap() }
    }

    pub(super) fn port(&self) -> u16 {
        self.server.redis.port()
    }

    /// What time it is there.
    pub(super) fn now_ms(&mut self) -> u64 {
        let (seconds, us): (u64, u64) =
            redis::cmd("TIME").query(&mut self.server.connection).unwrap();
        seconds * 1000 + us / 1000
    }

    /// Plays a history that the models have played and says where the two differ.
    pub(crate) fn compare(&mut self, history: &History, played: &[Played]) -> Result<(), String> {
        let (name, base) = NAMES[history.name];
        let layout = Redisson {
            prefix: String::new(),
            inboxes: INBOXES.to_owned(),
            sharded: false,
            fenced: history.fenced,
        };
        // What a history told that failed.
        self.heard();
        let mut told = Vec::new();
        for (step, played) in played.iter().enumerate() {
            let compared = self.step(&layout, name, base, played);
            compared.map_err(|why| format!("step {step} of ours, {played:#?}\n{why}"))?;
            told.extend(played.told.iter().flat_map(|told| as_told(told, base)));
        }
        let heard = self.heard();
        match heard == told {
            true => Ok(()),
            false => Err(format!("it told {heard:?} instead of {told:?}")),
        }
    }

    fn step(
        &mut self,
        layout: &Redisson,
        name: &str,
        base: &str,
        played: &Played,
    ) -> Result<(), String> {
        if let Some(before) = &played.before {
            self.load(&keys(before, name, base));
        }
        let call = layout.on(&LockName::new(name).unwrap(), &played.action).unwrap();
        let command = self.server.command(&call, played.answer.now.lease_us);
        let reply: Value =
            command.query(&mut self.server.connection).map_err(|error| error.to_string())?;
        let answer = call.answer(reply).map_err(|error| error.to_string())?;
        if answer != played.answer {
            return Err(format!("the server said {answer:#?}"));
        }
        let (expected, found) = (keys(&played.after, name, base), self.dump());
        match expected == found {
            true => Ok(()),
            false => Err(format!("there is {found:#?}\ninstead of {expected:#?}")),
        }
    }

    /// Has these keys and no others.
    pub(super) fn load(&mut self, keys: &Keys) {
        let mut pipeline = redis::pipe();
        pipeline.cmd("FLUSHDB");
        for (key, (end_ms, fields)) in keys {
            match fields.get("") {
                Some(value) => pipeline.cmd("SET").arg(key).arg(value),
                None => pipeline.cmd("HSET").arg(key).arg(fields),
            };
            if *end_ms > 0 {
                pipeline.cmd("PEXPIREAT").arg(key).arg(end_ms);
            }
        }
        pipeline.exec(&mut self.server.connection).unwrap();
    }

    pub(super) fn dump(&mut self) -> Keys {
        let mut command = redis::cmd("EVALSHA");
        let dump: Vec<(String, i64, BTreeMap<String, String>)> =
            command.arg(&self.dump).arg(0).query(&mut self.server.connection).unwrap();
        dump.into_iter().map(|(key, end_ms, fields)| (key, (end_ms, fields))).collect()
    }

    /// What was told since this was last asked.
    fn heard(&mut self) -> Vec<(String, String)> {
        redis::cmd("PUBLISH").arg("end").arg("").exec(&mut self.server.connection).unwrap();
        let mut heard = Vec::new();
        loop {
            let push = self.hears.recv_response().unwrap();
            let told = Msg::from_owned_value(push).unwrap();
            let (channel, payload) = (told.get_channel_name(), told.get_payload_bytes());
            if channel == "end" {
                return heard;
            }
            let payload = match message(payload) {
                Some(message) => format!("{message:?}"),
                None => String::from_utf8_lossy(payload).into_owned(),
            };
            heard.push((channel.to_owned(), payload));
        }
    }
}

/// A message by its channel.
fn as_told(told: &Told, base: &str) -> Vec<(String, String)> {
    match told {
        Told::Free { wrote } => {
            let rwlock = if *wrote { "1" } else { "0" };
            [("redisson_lock__channel", "0"), ("redisson_rwlock", rwlock)]
                .map(|(channel, payload)| (format!("{channel}:{base}"), payload.to_owned()))
                .to_vec()
        }
        Told::Revoked { id, token, force } => {
            let (attempt, token, forced) = (id.attempt, *token, *force);
            let revoked = Message::Revoked { attempt, nonce: 0, token, forced };
            let channel = format!("{}{}", key::inbox_prefix(INBOXES), id.client);
            vec![(channel, format!("{revoked:?}"))]
        }
    }
}

/// A lock as its keys.
pub(super) fn keys(record: &Record, name: &str, base: &str) -> Keys {
    let string = |text: String| BTreeMap::from([(String::new(), text)]);
    let mut keys = Keys::new();
    for ((owner, number), entry) in &record.entries {
        let key = format!("{base}:{owner}:rwlock_timeout:{number}");
        keys.insert(key, (entry.end_ms as i64, string(entry.value.text())));
    }
    if record.counter > 0 {
        let key = format!("redisson_lock_token:{base}");
        keys.insert(key, (-1, string(record.counter.to_string())));
    }
    if !record.is_free() {
        let mode = record.mode.map(|mode| if mode == Mode::Read { "read" } else { "write" });
        let mode = mode.map(|mode| ("mode".to_owned(), mode.to_owned()));
        let owners = record.owners.iter().map(|(owner, count)| (owner.clone(), count.to_string()));
        keys.insert(name.to_owned(), (record.end_ms as i64, owners.chain(mode).collect()));
    }
    keys
}
