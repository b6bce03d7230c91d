//! The real server's side of a history.

use leasehold::store::redis_wire::{Call, Layout, Native, Script, message};
use leasehold_core::{Action, Addressed, Answer, LockName, Reply};
use leasehold_testkit::{RedisServer, must};
use redis::{Connection, FromRedisValue, Msg, Value, cmd};

use super::keys::Keys;

const GATE: &str = "lh:{name}";
const INBOXES: &str = "lh:inbox:";

/// The clock of the scripts under test.
const TEST_TIME: &str = "call('MGET', '{name}:s', '{name}:us')";

pub(super) struct Server {
    _redis: RedisServer,
    connection: Connection,
    inboxes: Connection,
    layout: Native,
    name: LockName,
    /// The hash of each script, and that of the script with the test's clock.
    scripts: Vec<(&'static str, String)>,
    /// How much time has passed without the server's clock.
    passed_ms: i64,
}

impl Server {
    pub(super) fn start() -> Self {
        let redis = RedisServer::options().start().unwrap();
        let mut connection = redis.connection().unwrap();
        let mut inboxes = redis.connection().unwrap();
        cmd("PSUBSCRIBE").arg(format!("{INBOXES}*")).exec(&mut inboxes).unwrap();
        let mut load = |script: Script| {
            let source = script.source().replace("call('TIME')", TEST_TIME);
            (script.sha1(), cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap())
        };
        let scripts = Script::ALL.map(&mut load).to_vec();
        let (layout, name) = (Native::new("lh:", false), must(LockName::new("name")));
        Self { _redis: redis, connection, inboxes, layout, name, scripts, passed_ms: 0 }
    }

    fn query<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]).query(&mut self.connection).unwrap()
    }

    /// Another history begins: nothing is left of the one before, nor on its way to an inbox.
    pub(super) fn forget(&mut self) {
        self.query::<()>(&["FLUSHDB"]);
        self.heard();
    }

    /// The present time, which the next script reads (µs).
    pub(super) fn now_us(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"]);
        let now_us = (seconds * 1_000_000 + micros).saturating_add_signed(self.passed_ms * 1_000);
        let (seconds, micros) =
            ((now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string());
        self.query::<()>(&["MSET", "{name}:s", &seconds, "{name}:us", &micros]);
        now_us
    }

    /// Time passes: what expires lives for less long. Of a clock that is set back, for longer.
    pub(super) fn pass(&mut self, span_ms: i64) {
        self.passed_ms += span_ms;
        for suffix in ["", ":q", ":w", ":h", ":x", ":d"] {
            let key = format!("{GATE}{suffix}");
            let left_ms: i64 = self.query(&["PTTL", &key]);
            if left_ms >= 0 {
                let left_ms = left_ms - span_ms;
                self.query::<()>(&["PEXPIRE", &key, &left_ms.to_string()]);
            }
        }
    }

    /// The queue is lost, with the times of its waiters.
    pub(super) fn lose_queue(&mut self) {
        let waiters: Vec<String> = self.query(&["ZRANGE", &format!("{GATE}:q"), "0", "-1"]);
        for waiter in waiters {
            let attempt = waiter.split(' ').next().unwrap_or_default();
            self.query::<()>(&["HDEL", &format!("{GATE}:w"), attempt]);
        }
        self.query::<()>(&["DEL", &format!("{GATE}:q")]);
    }

    pub(super) fn counter(&mut self) -> u64 {
        self.query::<Option<u64>>(&["GET", "lh:%token"]).unwrap_or_default()
    }

    pub(super) fn apply(&mut self, action: &Action) -> Reply {
        let call: Call<Answer> = self.layout.act(&self.name, action).unwrap();
        let (sha1, keys) = (&call.request.script.sha1, call.request.keys().to_vec());
        let value: Value = self.run(sha1, &keys, &call.request.args().to_vec());
        call.answer(value).unwrap().reply
    }

    fn run<T: FromRedisValue>(&mut self, sha1: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> T {
        let (_, sha1) = self.scripts.iter().find(|(known, _)| *known == sha1).unwrap();
        let mut command = cmd("EVALSHA");
        command.arg(sha1).arg(keys.len()).arg(keys).arg(args);
        command.query(&mut self.connection).unwrap()
    }

    /// Sets the name by one command, and draws a number.
    pub(super) fn set(&mut self, value: &str, ttl_ms: u64) -> Option<u64> {
        let mut set = cmd("SET");
        set.arg(GATE).arg(value).arg("NX").arg("PX").arg(ttl_ms);
        let set: Option<String> = set.query(&mut self.connection).unwrap();
        let counter = b"lh:%token".to_vec();
        let token = self.run(Script::Draw.sha1(), &[counter], &[b"1".to_vec()]);
        set.map(|_| token)
    }

    /// What the inboxes were told since the last call.
    pub(super) fn heard(&mut self) -> Vec<Addressed> {
        self.query::<()>(&["PUBLISH", &format!("{INBOXES}end"), "end"]);
        let mut heard = Vec::new();
        loop {
            let value: Value = self.inboxes.recv_response().unwrap();
            let Some(msg) = Msg::from_value(&value) else { continue };
            let Some(client) = msg.get_channel_name().strip_prefix(INBOXES) else { continue };
            if client == "end" {
                return heard;
            }
            let payload = msg.get_payload_bytes();
            heard.push((client.parse().unwrap(), message(payload).unwrap()));
        }
    }

    pub(super) fn keys(&mut self) -> Keys {
        let pairs: Vec<(String, String)> =
            self.query(&["ZRANGE", &format!("{GATE}:q"), "0", "-1", "WITHSCORES"]);
        let mut shares: Vec<String> = self.query(&["ZRANGE", &format!("{GATE}:h"), "0", "-1"]);
        shares.sort_unstable();
        let gate: Option<String> = self.query(&["GET", GATE]);
        if gate.as_ref().is_none_or(|gate| !gate.starts_with('s')) {
            shares.clear(); // they do not count behind another gate
        }
        let mut with_token = |request: String| {
            let attempt = request.split(' ').next().unwrap_or_default();
            let token: Option<String> = self.query(&["HGET", &format!("{GATE}:w"), attempt]);
            (request, token.unwrap_or_default())
        };
        let shares = shares.into_iter().map(&mut with_token).collect();
        Keys {
            gate,
            queue: pairs.into_iter().map(|(request, place)| (place, request)).collect(),
            shares,
            closed: self.query(&["LRANGE", &format!("{GATE}:x"), "0", "-1"]),
            last: self.query(&["GET", &format!("{GATE}:d")]),
        }
    }

    /// How long a key lives, if there is one (ms).
    pub(super) fn life_ms(&mut self, suffix: &str) -> Option<u64> {
        u64::try_from(self.query::<i64>(&["PTTL", &format!("{GATE}{suffix}")])).ok()
    }
}
