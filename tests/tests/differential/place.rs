//! The real server's side of a history of a lock that is shared with other programs: our scripts,
//! and all keys after each script.

use std::collections::BTreeMap;
use std::fmt::Debug;

use leasehold::store::redis_wire::{Call, Script, key, message};
use leasehold_core::{Answer, HolderId, Message, Reply};
use leasehold_testkit::RedisServer;
use redis::{Connection, Msg, Value};

/// The clock of the scripts under test: their last argument.
const TEST_TIME: &str = "(function() local us = table.remove(ARGV) \
    return { string.sub(us, 1, -7), string.sub(us, -6) } end)()";

/// The prefix of the channels of clients.
pub(crate) const INBOXES: &str = "lh:";

/// Reads all keys, each with its end, and with its fields or its value.
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
pub(crate) type Keys = BTreeMap<String, (i64, BTreeMap<String, String>)>;

/// A string that ends at this time.
pub(crate) fn string(end_ms: i64, text: String) -> (i64, BTreeMap<String, String>) {
    (end_ms, BTreeMap::from([(String::new(), text)]))
}

/// An action of ours, and its effect according to the models.
pub(crate) struct Expected {
    /// The keys before the action, if another program has changed them.
    pub(crate) before: Option<Keys>,
    pub(crate) call: Call<Answer>,
    pub(crate) now_us: u64,
    pub(crate) reply: Reply,
    /// The messages, each with its channel.
    pub(crate) messages: Vec<(String, String)>,
    pub(crate) after: Keys,
}

/// A server with the scripts on it, and a connection that is sent every message.
pub(crate) struct Place {
    redis: RedisServer,
    connection: Connection,
    subscriber: Connection,
    /// The hash of each script, and that of the script with the test's clock.
    scripts: Vec<(&'static str, String)>,
    dump: String,
}

impl Place {
    pub(crate) fn start() -> Self {
        let redis = RedisServer::options().start().unwrap();
        let (mut connection, mut subscriber) =
            (redis.connection().unwrap(), redis.connection().unwrap());
        redis::cmd("PSUBSCRIBE").arg("*").exec(&mut subscriber).unwrap();
        let mut load = |source: String| -> String {
            redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap()
        };
        let tested = |script: Script| script.source().replace("redis.call('TIME')", TEST_TIME);
        let scripts = Script::ALL.map(|script| (script.sha1(), load(tested(script)))).to_vec();
        let dump = load(DUMP.to_owned());
        Self { redis, connection, subscriber, scripts, dump }
    }

    pub(crate) fn port(&self) -> u16 {
        self.redis.port()
    }

    /// The time of the server.
    pub(crate) fn now_ms(&mut self) -> u64 {
        let (seconds, us): (u64, u64) = redis::cmd("TIME").query(&mut self.connection).unwrap();
        seconds * 1000 + us / 1000
    }

    /// Plays a history that the models have played, and returns the first difference.
    pub(crate) fn compare<P: Debug>(
        &mut self,
        played: &[P],
        expected: impl Fn(&P) -> Expected,
    ) -> Result<(), String> {
        // Drops the messages of an earlier history that failed.
        self.messages();
        let mut expected_messages = Vec::new();
        for (step, played) in played.iter().enumerate() {
            let expected = expected(played);
            let compared = self.step(&expected);
            compared.map_err(|why| format!("step {step} of ours, {played:#?}\n{why}"))?;
            expected_messages.extend(expected.messages);
        }
        let messages = self.messages();
        match messages == expected_messages {
            true => Ok(()),
            false => Err(format!("it sent {messages:?} instead of {expected_messages:?}")),
        }
    }

    fn step(&mut self, expected: &Expected) -> Result<(), String> {
        if let Some(before) = &expected.before {
            self.load(before);
        }
        let request = &expected.call.request;
        let (_, sha1) = self.scripts.iter().find(|(sha1, _)| *sha1 == request.script.sha1).unwrap();
        let (mut command, keys) = (redis::cmd("EVALSHA"), request.keys().to_vec());
        command.arg(sha1).arg(keys.len()).arg(keys).arg(request.args().to_vec());
        command.arg(expected.now_us);
        let reply: Value =
            command.query(&mut self.connection).map_err(|error| error.to_string())?;
        let answer = expected.call.answer(reply).map_err(|error| error.to_string())?;
        if answer.reply != expected.reply {
            return Err(format!("the server said {answer:#?}"));
        }
        let found = self.dump();
        match expected.after == found {
            true => Ok(()),
            false => Err(format!("there is {found:#?}\ninstead of {:#?}", expected.after)),
        }
    }

    /// Sets these keys, and deletes all others.
    pub(crate) fn load(&mut self, keys: &Keys) {
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
        pipeline.exec(&mut self.connection).unwrap();
    }

    pub(crate) fn dump(&mut self) -> Keys {
        let mut command = redis::cmd("EVALSHA");
        let dump: Vec<(String, i64, BTreeMap<String, String>)> =
            command.arg(&self.dump).arg(0).query(&mut self.connection).unwrap();
        dump.into_iter().map(|(key, end_ms, fields)| (key, (end_ms, fields))).collect()
    }

    /// The messages since the last call, each with its channel.
    fn messages(&mut self) -> Vec<(String, String)> {
        redis::cmd("PUBLISH").arg("end").arg("").exec(&mut self.connection).unwrap();
        let mut messages = Vec::new();
        loop {
            let push = self.subscriber.recv_response().unwrap();
            let published = Msg::from_owned_value(push).unwrap();
            let (channel, payload) = (published.get_channel_name(), published.get_payload_bytes());
            if channel == "end" {
                return messages;
            }
            let payload = match message(payload) {
                Some(message) => format!("{message:?}"),
                None => String::from_utf8_lossy(payload).into_owned(),
            };
            messages.push((channel.to_owned(), payload));
        }
    }
}

/// The message with which an operator asks a holder to release, with its channel.
pub(crate) fn revoked(id: HolderId, forced: bool) -> (String, String) {
    let revoked = Message::Revoked { attempt: id.attempt, forced };
    (format!("{}{}", key::inbox_prefix(INBOXES), id.client), format!("{revoked:?}"))
}
