//! The real server's side of a history: the same steps in one pipeline, and the record after each.

use std::collections::BTreeMap;

use leasehold::store::redis_wire::Call;
use leasehold::store::redis_wire::Script;
use leasehold::store::redis_wire::key::{self, key};
use leasehold::store::redis_wire::message;
use leasehold::store::redis_wire::{Layout, Native};
use leasehold_core::model::Record;
use leasehold_core::{Addressed, Answer, ClientId, Operation};
use leasehold_testkit::{RedisOptions, RedisServer};
use redis::{Connection, ConnectionLike as _, Msg, Pipeline, Value};

use super::dump::{self, Fields};
use super::history::{Asked, NAMES, Played, name};

/// The clock of the scripts under test: their last argument.
pub(crate) const TEST_CLOCK: &str = "local now = tonumber(table.remove(ARGV))\n";

/// Reads a whole hash and its expiry, as two values. Separate values for the fields would take the
/// test longer than everything else.
const DUMP: &str = r"#!lua flags=no-writes
local fields = redis.call('HGETALL', KEYS[1])
for index, bytes in ipairs(fields) do fields[index] = struct.pack('<I4', #bytes) .. bytes end
return { redis.call('PEXPIRETIME', KEYS[1]), table.concat(fields) }
";

/// The end of a message's channel, which names a client, and its bytes.
pub(crate) type Sent = (String, Vec<u8>);

/// A private server with the scripts on it, and a connection that hears every inbox.
pub(crate) struct Server {
    pub(crate) redis: RedisServer,
    pub(crate) connection: Connection,
    pub(crate) layout: Native,
    inboxes: Connection,
    /// Every script, then `DUMP`.
    sources: Vec<String>,
    sha1: Vec<String>,
}

impl Server {
    /// Starts a server whose scripts take their time from the caller.
    pub(crate) fn start(options: RedisOptions) -> Self {
        let redis = options.start().unwrap();
        let mut connection = redis.connection().unwrap();
        let mut inboxes = redis.connection().unwrap();
        let prefix = "lh:".to_owned();
        let pattern = format!("{}*", key::inbox_prefix(&prefix));
        let layout = Native { prefix };
        redis::cmd("PSUBSCRIBE").arg(pattern).exec(&mut inboxes).unwrap();
        let scripts = Script::ALL.map(|script| script.assemble(TEST_CLOCK));
        let sources: Vec<_> = scripts.into_iter().chain([DUMP.to_owned()]).collect();
        let load = |source| redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection);
        let sha1 = sources.iter().map(load).collect::<Result<_, _>>().unwrap();
        Self { redis, connection, layout, inboxes, sources, sha1 }
    }

    /// The EVALSHA of a call at this time.
    pub(crate) fn command(&self, call: &Call<Answer>, now_us: u64) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.sha1(&call.script.sha1));
        command.arg(call.keys.len()).arg(&call.keys).arg(&call.args).arg(now_us);
        command
    }

    /// The digest of the tested script, for the shipped script with this name.
    fn sha1(&self, shipped: &str) -> &str {
        let is_it = |script: &Script| script.sha1() == shipped;
        &self.sha1[Script::ALL.iter().position(is_it).unwrap()]
    }

    /// The EVALSHA of calls of one script, one name each, as one call at this time.
    pub(crate) fn bundle(&self, calls: &[Call<Answer>], now_us: u64) -> redis::Cmd {
        let script = calls[0].script.sha1.as_str();
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.sha1(script)).arg(calls.len());
        for call in calls {
            assert_eq!(call.script.sha1, script);
            command.arg(&call.keys);
        }
        command.arg(&calls[0].args[0]);
        for call in calls {
            command.arg(&call.args[1]);
        }
        command.arg(now_us);
        command
    }

    /// The messages since the last call.
    pub(crate) fn heard(&mut self) -> Vec<Addressed> {
        let channel = format!("{}end", key::inbox_prefix("lh:"));
        redis::cmd("PUBLISH").arg(channel).arg("end").exec(&mut self.connection).unwrap();
        heard(&self.sent().unwrap()).unwrap()
    }

    /// The fields of a lock's key.
    pub(crate) fn fields(&mut self, index: usize) -> Fields {
        redis::cmd("HGETALL").arg(self.key(index)).query(&mut self.connection).unwrap()
    }

    /// The key of a name.
    pub(crate) fn key(&self, index: usize) -> Vec<u8> {
        key(&self.layout.prefix, &name(index))
    }

    /// Plays a history that the model has played, and returns the first difference.
    pub(crate) fn compare(&mut self, history: &[Played]) -> Result<(), String> {
        self.forget();
        self.compare_on(history)
    }

    /// Forgets the records of all names.
    pub(crate) fn forget(&mut self) {
        let mut forget = redis::cmd("DEL");
        for name in 0..NAMES.len() {
            forget.arg(self.key(name));
        }
        forget.exec(&mut self.connection).unwrap();
    }

    /// Sets a record to the fields that somebody has written.
    pub(crate) fn put(&mut self, name: usize, fields: &BTreeMap<Vec<u8>, Vec<u8>>, of: &Record) {
        let (key, mut pipeline) = (self.key(name), redis::pipe());
        pipeline.cmd("DEL").arg(&key);
        pipeline.cmd("HSET").arg(&key).arg(fields);
        pipeline.cmd("PEXPIREAT").arg(&key).arg(expire_at_ms(of));
        pipeline.exec(&mut self.connection).unwrap();
    }

    /// Does one operation.
    pub(crate) fn carry_out(&mut self, operation: &Operation, now_us: u64) -> Answer {
        let call = call(&self.layout, operation);
        let reply: Value = self.command(&call, now_us).query(&mut self.connection).unwrap();
        call.answer(reply).unwrap()
    }

    /// The same as [`compare`](Self::compare), starting with the records that are there.
    pub(crate) fn compare_on(&mut self, history: &[Played]) -> Result<(), String> {
        let told = heard(&self.play(history)?)?;
        let expected: Vec<_> = history.iter().flat_map(|played| &played.messages).collect();
        for (index, (expected, found)) in expected.iter().zip(&told).enumerate() {
            if *expected != found {
                return Err(format!("message {index} is {found:?} instead of {expected:?}"));
            }
        }
        if expected.len() != told.len() {
            return Err(format!("{} messages instead of {}", told.len(), expected.len()));
        }
        Ok(())
    }

    /// Plays a history. Returns the difference between its answers and records and those of the
    /// model, or the messages with their recipients.
    pub(crate) fn play(&mut self, history: &[Played]) -> Result<Vec<Sent>, String> {
        let mut pipeline = redis::pipe();
        for played in history {
            self.push(&mut pipeline, played);
        }
        pipeline.cmd("PUBLISH").arg(format!("{}end", key::inbox_prefix("lh:"))).arg("end");
        let count = pipeline.len();
        let replies = self
            .connection
            .req_packed_commands(&pipeline.get_packed_pipeline(), 0, count)
            .map_err(|error| error.to_string())?;
        let mut replies = replies.into_iter();
        for (step, played) in history.iter().enumerate() {
            self.check(played, &mut replies).map_err(|difference| {
                format!("step {step} of {}: {played:#?}\n{difference}", history.len())
            })?;
        }
        self.sent()
    }

    fn push(&self, pipeline: &mut Pipeline, played: &Played) {
        match &played.asked {
            Asked::Delete(name) => {
                pipeline.cmd("DEL").arg(self.key(*name));
            }
            Asked::FlushScripts => {
                pipeline.cmd("SCRIPT").arg("FLUSH");
                for source in &self.sources {
                    pipeline.cmd("SCRIPT").arg("LOAD").arg(source);
                }
            }
            Asked::Operation(operation) => {
                let call = call(&self.layout, operation);
                pipeline.add_command(self.command(&call, played.now_us));
            }
        }
        for (name, _) in &played.after {
            pipeline.cmd("EVALSHA").arg(self.dump_sha1()).arg(1).arg(self.key(*name));
        }
    }

    fn check(
        &self,
        played: &Played,
        replies: &mut impl Iterator<Item = Value>,
    ) -> Result<(), String> {
        let mut next = || replies.next().ok_or("too few replies");
        match &played.asked {
            Asked::Delete(_) => drop(next()?),
            Asked::FlushScripts => {
                for _ in 0..=self.sources.len() {
                    next()?;
                }
            }
            Asked::Operation(operation) => {
                let call = call(&self.layout, operation);
                let reply = next()?;
                let answer = call
                    .answer(reply.clone())
                    .map_err(|error| format!("the server said {reply:?}: {error}"))?;
                if Some(&answer) != played.answer.as_ref() {
                    return Err(format!("the server said {answer:#?}"));
                }
            }
        }
        for (name, expected) in &played.after {
            let (expire_at, fields): (i64, Vec<u8>) =
                redis::from_redis_value(next()?).map_err(|error| error.to_string())?;
            let fields = unpack(&fields).ok_or("a dump that cannot be read")?;
            let found = dump::record(&fields)
                .map_err(|what| format!("record {name} is damaged: {what}: {fields:?}"))?;
            if found != *expected {
                return Err(format!("record {name} on the server: {found:#?}"));
            }
            if expire_at != expire_at_ms(expected) {
                return Err(format!("record {name} is kept until {expire_at}"));
            }
        }
        Ok(())
    }

    fn dump_sha1(&self) -> &str {
        &self.sha1[self.sha1.len() - 1]
    }

    /// The messages since the last call.
    fn sent(&mut self) -> Result<Vec<Sent>, String> {
        let prefix = key::inbox_prefix(&self.layout.prefix);
        let mut sent = Vec::new();
        loop {
            let push = self.inboxes.recv_response().map_err(|error| error.to_string())?;
            let heard = Msg::from_owned_value(push).ok_or("no message")?;
            let client =
                heard.get_channel_name().strip_prefix(&prefix).ok_or("a foreign channel")?;
            if client == "end" {
                return Ok(sent);
            }
            sent.push((client.to_owned(), heard.get_payload_bytes().to_vec()));
        }
    }
}

/// The messages in what was sent.
fn heard(sent: &[Sent]) -> Result<Vec<Addressed>, String> {
    let heard = sent.iter().map(|(client, payload)| {
        let client: ClientId = client.parse().map_err(|_| format!("client {client:?}"))?;
        Ok((client, message(payload).ok_or("a payload that is no message")?))
    });
    heard.collect()
}

fn unpack(mut dump: &[u8]) -> Option<Fields> {
    let mut fields = Fields::new();
    let mut next = || {
        let (length, rest) = dump.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        dump = rest;
        Some(bytes.to_vec())
    };
    while let Some(field) = next() {
        fields.insert(field, next()?);
    }
    dump.is_empty().then_some(fields)
}

/// When the server may forget a record; -2 stands for no record.
fn expire_at_ms(record: &Record) -> i64 {
    if *record == Record::default() { -2 } else { record.collect_at_us.div_ceil(1000) as i64 }
}

/// The call that executes an operation.
fn call(layout: &Native, operation: &Operation) -> Call<Answer> {
    match operation {
        Operation::On { name, action } => layout.act(name, action).unwrap(),
        Operation::Renew(leases) => layout.renew(leases),
        _ => panic!("no script lists names"),
    }
}
