//! The real server's side of a history.

use leasehold_testkit::RedisServer;
use redis::{Connection, FromRedisValue, Msg, Value, cmd};

use super::text::Keys;

const GATE: &str = "lh:{name}";
const COUNTER: &str = "lh:{name}:token";

/// The prefix of inboxes.
pub(super) const INBOXES: &str = "lh:inbox:";

/// The scripts, each with what all share.
const SHARED: &str = include_str!("gate.lua");
const SCRIPTS: [(&str, &str); 5] = [
    ("end", include_str!("end.lua")),
    ("keep", include_str!("keep.lua")),
    ("look", include_str!("look.lua")),
    ("revoke", include_str!("revoke.lua")),
    ("take", include_str!("take.lua")),
];

/// The clock of the scripts under test.
const CLOCK: &str = "call('TIME')";
const TEST_CLOCK: &str = "call('MGET', '{name}:s', '{name}:us')";

pub(super) struct Server {
    _redis: RedisServer,
    connection: Connection,
    inboxes: Connection,
    sha1: Vec<(&'static str, String)>,
    /// How much time has passed without the server's clock.
    passed_ms: u64,
}

impl Server {
    pub(super) fn start() -> Self {
        let redis = RedisServer::options().start().unwrap();
        let mut connection = redis.connection().unwrap();
        let mut inboxes = redis.connection().unwrap();
        cmd("PSUBSCRIBE").arg(format!("{INBOXES}*")).exec(&mut inboxes).unwrap();
        let sha1 = SCRIPTS.map(|(name, source)| {
            let source = source.replace("--@include gate", SHARED).replace(CLOCK, TEST_CLOCK);
            (name, cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap())
        });
        Self { _redis: redis, connection, inboxes, sha1: sha1.to_vec(), passed_ms: 0 }
    }

    fn query<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]).query(&mut self.connection).unwrap()
    }

    pub(super) fn forget(&mut self) {
        self.query::<()>(&["FLUSHDB"]);
    }

    /// The present time, which the next script reads (µs).
    pub(super) fn now_us(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"]);
        let now_us = seconds * 1_000_000 + micros + self.passed_ms * 1_000;
        let (seconds, micros) =
            ((now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string());
        self.query::<()>(&["MSET", "{name}:s", &seconds, "{name}:us", &micros]);
        now_us
    }

    /// Time passes: what expires lives for less long.
    pub(super) fn pass(&mut self, span_ms: u64) {
        self.passed_ms += span_ms;
        for suffix in ["", ":q", ":w", ":h", ":x"] {
            let key = format!("{GATE}{suffix}");
            let left_ms: i64 = self.query(&["PTTL", &key]);
            if left_ms >= 0 {
                let left_ms = left_ms - span_ms as i64;
                self.query::<()>(&["PEXPIRE", &key, &left_ms.to_string()]);
            }
        }
    }

    pub(super) fn delete(&mut self, suffix: &str) {
        self.query::<()>(&["DEL", &format!("{GATE}{suffix}")]);
    }

    pub(super) fn counter(&mut self) -> u64 {
        self.query::<Option<u64>>(&["GET", COUNTER]).unwrap_or_default()
    }

    /// Runs a script on the name.
    pub(super) fn run<T: FromRedisValue>(&mut self, script: &str, args: &[String]) -> T {
        let (_, sha1) = self.sha1.iter().find(|(name, _)| *name == script).unwrap();
        let mut command = cmd("EVALSHA");
        command.arg(sha1).arg(2).arg(GATE).arg(COUNTER).arg(args);
        command.query(&mut self.connection).unwrap()
    }

    /// Sets the name by one command, and draws a number in the same transaction.
    pub(super) fn set(&mut self, value: &str, ttl_ms: u64, now_us: u64) -> Option<u64> {
        let before = self.counter();
        let next = (before + 1).max(now_us);
        let mut both = redis::pipe();
        both.atomic();
        both.cmd("SET").arg(GATE).arg(value).arg("NX").arg("PX").arg(ttl_ms);
        both.cmd("INCRBY").arg(COUNTER).arg(next - before);
        let (set, token): (Option<String>, u64) = both.query(&mut self.connection).unwrap();
        set.map(|_| token)
    }

    /// What the inboxes were told since the last call.
    pub(super) fn heard(&mut self) -> Vec<String> {
        self.query::<()>(&["PUBLISH", &format!("{INBOXES}end"), "end"]);
        let mut heard = Vec::new();
        loop {
            let value: Value = self.inboxes.recv_response().unwrap();
            let Some(message) = Msg::from_value(&value) else { continue };
            let payload: String = message.get_payload().unwrap();
            match payload.as_str() {
                "end" => return heard,
                _ => heard.push(payload),
            }
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
        Keys {
            gate,
            queue: pairs.into_iter().map(|(request, place)| (place, request)).collect(),
            shares,
            closed: self.query(&["LRANGE", &format!("{GATE}:x"), "0", "-1"]),
        }
    }

    /// How long a key lives, if there is one (ms).
    pub(super) fn life_ms(&mut self, suffix: &str) -> Option<u64> {
        let left: i64 = self.query(&["PTTL", &format!("{GATE}{suffix}")]);
        u64::try_from(left).ok()
    }
}
