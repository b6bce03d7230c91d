//! Damaged records, and servers that deny or lack something: a step is refused as a whole, or done
//! as a whole.

use std::time::Duration;

use leasehold::store::Redis;
use leasehold::store::redis_wire::{Layout, RECORD_VERSION, Script};
use leasehold_core::{
    Acquire, Action, Adopt, ClientId, FencingToken, HolderId, HolderInfo, Mode, Reclaim, Refusal,
    RenewLease, Reply, StoreErrorKind,
};
use leasehold_testkit::RedisServer;
use redis::{RedisError, Value};

use super::dump;
use super::history::{START_US, name};
use super::server::Server;

const TTL: Duration = Duration::from_secs(30);

/// A second name, which stays unchanged.
const SOUND: usize = 1;

/// Every action, by the waiting reader 3 or on the hold of reader 1.
fn actions() -> Vec<Action> {
    let token = FencingToken::from_micros(START_US);
    vec![
        acquire(9, Mode::Shared),
        acquire(3, Mode::Exclusive),
        adopt(9),
        Action::Cancel { id: id(3), unanswered: true },
        Action::Commit { id: id(1), token, ttl: TTL },
        Action::Describe { id: id(1), info: HolderInfo::default() },
        Action::Inspect { limit: 10 },
        Action::Poll { id: id(3), ttl: TTL },
        reclaim(1),
        reclaim(6),
        Action::Release { id: id(1), cooldown: Duration::ZERO, unanswered: true },
        Action::Release { id: id(1), cooldown: Duration::ZERO, unanswered: false },
        renew(TTL),
        Action::Revoke { id: id(1), token, force: true },
    ]
}

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn acquire(client: u128, mode: Mode) -> Action {
    Action::Acquire(Acquire::new(id(client), mode, TTL).with_wait(true).with_nonce(7))
}

/// The reader 1 renews.
fn renew(ttl: Duration) -> Action {
    Action::Renew { id: id(1), ttl }
}

/// The client with this number adopts the lease of reader 1.
fn adopt(client: u128) -> Action {
    let request = Acquire::new(id(client), Mode::Shared, TTL).with_nonce(7);
    Action::Adopt(Adopt::new(id(1), None, request))
}

/// The reader with this number takes its hold back.
fn reclaim(client: u128) -> Action {
    let request = Acquire::new(id(client), Mode::Shared, TTL).with_nonce(7);
    Action::Reclaim(Reclaim::new(FencingToken::from_micros(START_US), request))
}

impl Server {
    /// Does one action to the record of name 0.
    pub(crate) fn act(&mut self, action: &Action, now_us: u64) -> Result<Reply, StoreErrorKind> {
        let call = self.layout.act(&name(0), action).unwrap();
        let value: Result<Value, RedisError> =
            self.command(&call, now_us).query(&mut self.connection);
        match value {
            Ok(value) => call.answer(value).map(|answer| answer.reply).map_err(|e| e.kind()),
            Err(error) => match error.code() {
                Some("ARGUMENT") => Err(StoreErrorKind::Unsupported),
                Some("WRONGTYPE") => Err(StoreErrorKind::Corrupt),
                _ => panic!("{error}"),
            },
        }
    }

    /// Readers 1 and 2 hold, writers 3 and 4 wait, attempts of reader 5 are remembered.
    fn stage(&mut self) {
        self.stage_in(Mode::Shared);
    }

    /// The same, or with 1 and 2 as writers, of which 1 holds.
    fn stage_in(&mut self, mode: Mode) {
        redis::cmd("DEL").arg(self.key(0)).exec(&mut self.connection).unwrap();
        // A client has held before.
        self.act(&acquire(8, mode), START_US).unwrap();
        let (cooldown, unanswered) = (Duration::ZERO, false);
        self.act(&Action::Release { id: id(8), cooldown, unanswered }, START_US).unwrap();
        for (client, mode) in [(1, mode), (2, mode), (3, Mode::Exclusive), (4, Mode::Exclusive)] {
            self.act(&acquire(client, mode), START_US).unwrap();
        }
        self.act(&Action::Cancel { id: id(5), unanswered: true }, START_US).unwrap();
        assert!(dump::record(&self.fields(0)).is_ok());
    }

    fn dump(&mut self) -> Value {
        redis::cmd("DUMP").arg(self.key(0)).query(&mut self.connection).unwrap()
    }
}

#[test]
fn a_key_of_another_type_is_an_error_and_stays_as_it_is() {
    let mut server = Server::start(RedisServer::options());
    for command in ["SET", "RPUSH", "SADD"] {
        redis::cmd("DEL").arg(server.key(0)).exec(&mut server.connection).unwrap();
        let key = server.key(0);
        redis::cmd(command).arg(key).arg("theirs").exec(&mut server.connection).unwrap();
        let before = server.dump();
        for action in actions() {
            let refused = server.act(&action, START_US);
            assert_eq!(refused, Err(StoreErrorKind::Corrupt), "{command} {action:?}");
        }
        assert_eq!(server.dump(), before);
    }
}

/// The id of no attempt is the mark for the end of the queue: a waiter with this id would cut the
/// queue off.
#[test]
fn a_request_of_no_attempt_is_refused_and_changes_nothing() {
    let mut server = Server::start(RedisServer::options());
    server.stage();
    let before = server.dump();
    let nobody = HolderId { client: ClientId(0), attempt: 0 };
    let request = Acquire::new(nobody, Mode::Shared, TTL).with_wait(true);
    for action in [
        Action::Acquire(request.clone()),
        Action::Adopt(Adopt::new(id(1), None, request.clone())),
        Action::Reclaim(Reclaim::new(FencingToken::from_micros(START_US), request)),
    ] {
        let refused = server.act(&action, START_US);
        assert_eq!(refused, Err(StoreErrorKind::Unsupported), "{action:?}");
    }
    assert_eq!(server.dump(), before);
}

#[test]
fn a_hash_of_somebody_else_gets_no_field_and_no_time_to_live() {
    let mut server = Server::start(RedisServer::options());
    let key = server.key(0);
    redis::cmd("HSET").arg(&key).arg("name").arg("x").exec(&mut server.connection).unwrap();
    for action in actions() {
        assert_eq!(server.act(&action, START_US), Err(StoreErrorKind::Corrupt), "{action:?}");
    }
    assert_eq!(server.fields(0).len(), 1);
    let ttl: i64 = redis::cmd("TTL").arg(&key).query(&mut server.connection).unwrap();
    assert_eq!(ttl, -1);
}

#[test]
fn a_damaged_field_is_an_error_or_not_looked_at_and_nothing_is_changed_by_halves() {
    // s, l, f, g, q, t, a hold and its index, two waiters, clients
    damage_each_field(Mode::Shared, 12);
}

#[test]
fn the_quick_paths_are_as_careful_with_a_damaged_field() {
    // s, b, l, f, g, q, t, three waiters and clients
    damage_each_field(Mode::Exclusive, 13);
}

fn damage_each_field(mode: Mode, expected: usize) {
    let mut server = Server::start(RedisServer::options());
    server.stage_in(mode);
    let fields: Vec<Vec<u8>> = server.fields(0).into_keys().collect();
    assert_eq!(fields.len(), expected);
    let mut refusals = 0;
    for field in &fields {
        for damage in [&b""[..], b"\x02", b"\x02\0garbage", &[0xff; 500]] {
            for action in actions() {
                server.stage_in(mode);
                let key = server.key(0);
                let mut set = redis::cmd("HSET");
                set.arg(key).arg(field).arg(damage).exec(&mut server.connection).unwrap();
                let before = server.fields(0);
                let reply = server.act(&action, START_US + 1);
                if reply == Err(StoreErrorKind::Corrupt) || is_version(&reply) {
                    refusals += 1;
                    assert_eq!(server.fields(0), before, "{} {action:?}", field.escape_ascii());
                } else {
                    let left = server.fields(0);
                    let is_untouched = left.get(field).is_none_or(|value| value == damage);
                    assert!(
                        is_untouched || field[0] == b's' || dump::record(&left).is_ok(),
                        "{} {} {action:?}: {reply:?}",
                        field.escape_ascii(),
                        damage.escape_ascii()
                    );
                }
                if field == b"s" {
                    assert!(reply.is_err() || is_version(&reply), "{action:?}: {reply:?}");
                }
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
}

fn is_version(reply: &Result<Reply, StoreErrorKind>) -> bool {
    matches!(reply, Ok(Reply::Refused(Refusal::Version { .. })))
}

#[test]
fn a_record_of_an_unknown_version_is_refused_and_stays_as_it_is() {
    let mut server = Server::start(RedisServer::options());
    let later = [&[RECORD_VERSION + 1][..], b"whatever comes later"].concat();
    for state in [&later[..1], &later, b"\x01", &[0xfe; 200]] {
        server.stage();
        let key = server.key(0);
        redis::cmd("HSET").arg(key).arg("s").arg(state).exec(&mut server.connection).unwrap();
        let before = server.fields(0);
        let refused = Ok(Reply::Refused(Refusal::Version { found: u32::from(state[0]) }));
        for action in actions() {
            assert_eq!(server.act(&action, START_US), refused, "{action:?}");
        }
        assert_eq!(server.fields(0), before);
    }
}

#[test]
fn one_damaged_record_does_not_end_the_leases_that_are_renewed_with_it() {
    let mut server = Server::start(RedisServer::options());
    server.stage();
    let key = server.key(SOUND);
    redis::cmd("SET").arg(key).arg("theirs").exec(&mut server.connection).unwrap();
    let lease = |index| RenewLease::new(name(index), id(1), TTL);
    let call = server.layout.renew(&[lease(SOUND), lease(0), lease(SOUND)]);
    let reply = server.command(&call, START_US + 5).query(&mut server.connection).unwrap();
    let Reply::Many(replies) = call.answer(reply).unwrap().reply else { panic!("not many") };
    assert!(
        matches!(
            replies[..],
            [
                Reply::Refused(Refusal::Damaged),
                Reply::Granted(grant),
                Reply::Refused(Refusal::Damaged),
            ] if grant.deadline_us == START_US + 5 + 30_000_000
        ),
        "{replies:?}"
    );
}

#[test]
fn a_span_that_cannot_be_reckoned_with_is_refused_before_anything_is_done() {
    let mut server = Server::start(RedisServer::options());
    let refused = Err(StoreErrorKind::Unsupported);
    for ttl in [Duration::MAX, Duration::from_secs(2_000_000_000)] {
        assert_eq!(server.act(&Action::Poll { id: id(1), ttl }, START_US), refused);
        assert_eq!(server.act(&renew(ttl), START_US), refused);
        let release = Action::Release { id: id(1), cooldown: ttl, unanswered: true };
        assert_eq!(server.act(&release, START_US), refused);
        let Action::Acquire(request) = acquire(1, Mode::Shared) else { unreachable!() };
        assert_eq!(server.act(&Action::Acquire(request.with_ttl(ttl)), START_US), refused);
    }
    assert!(server.fields(0).is_empty());
}

#[test]
fn a_step_is_done_even_if_publish_is_denied() {
    let mut server = Server::start(RedisServer::options());
    server.stage();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("default").arg("-publish").exec(&mut server.connection).unwrap();
    for holder in [1, 2] {
        let release =
            Action::Release { id: id(holder), cooldown: Duration::ZERO, unanswered: false };
        assert_eq!(server.act(&release, START_US + 1), Ok(Reply::Released));
    }
    let poll = server.act(&Action::Poll { id: id(3), ttl: TTL }, START_US + 2);
    assert!(matches!(poll, Ok(Reply::Granted(_))), "{poll:?}");
    let record = dump::record(&server.fields(0)).unwrap();
    assert_eq!((record.holds.len(), record.queue.len()), (1, 1));
}

#[test]
fn a_full_server_refuses_an_acquire_and_nothing_else() {
    let mut server = Server::start(RedisServer::options());
    server.stage();
    let before = server.fields(0);
    let mut limit = redis::cmd("CONFIG");
    limit.arg("SET").arg("maxmemory").arg("1").exec(&mut server.connection).unwrap();
    for wait in [true, false] {
        let Action::Acquire(request) = acquire(9, Mode::Shared) else { unreachable!() };
        let action = Action::Acquire(request.with_wait(wait));
        let call = server.layout.act(&name(0), &action).unwrap();
        let refused: Result<Value, RedisError> =
            server.command(&call, START_US).query(&mut server.connection);
        assert_eq!(refused.unwrap_err().code(), Some("OOM"));
    }
    assert_eq!(server.fields(0), before);
    for action in actions() {
        match action {
            // These may make the record grow.
            Action::Acquire(_)
            | Action::Adopt(_)
            | Action::Describe { .. }
            | Action::Reclaim(_) => {}
            _ => {
                let reply = server.act(&action, START_US + 1);
                assert!(reply.is_ok(), "{action:?}: {reply:?}");
            }
        }
    }
}

#[test]
fn scripts_call_no_command_but_those_that_the_rights_name() {
    const WORDS: [&str; 7] =
        ["BYSCORE", "CORRUPT", "COUNT", "KEEPTTL", "LIMIT", "PXAT", "WRONGTYPE"];
    for script in Script::ALL {
        let code = script.source().lines().map(|line| line.split("--").next().unwrap());
        for word in code.flat_map(|code| code.split('\'').skip(1).step_by(2)) {
            let is_command = word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            let right = format!("+{}", word.to_lowercase());
            let is_named = rights(script).split(' ').any(|named| named == right);
            assert!(!is_command || WORDS.contains(&word) || is_named, "{script:?}: {word}");
        }
    }
}

fn rights(script: Script) -> &'static str {
    match script {
        Script::Acquire
        | Script::Adopt
        | Script::BootRecord
        | Script::Cancel
        | Script::Commit
        | Script::Describe
        | Script::Inspect
        | Script::Nodes
        | Script::Poll
        | Script::Reclaim
        | Script::Release
        | Script::Renew
        | Script::Revoke => Redis::HOLDER_RIGHTS,
        Script::PlainAcquire
        | Script::PlainAdopt
        | Script::PlainDescribe
        | Script::PlainInspect
        | Script::PlainRelease
        | Script::PlainRenew
        | Script::PlainRevoke => Redis::PLAIN_RIGHTS,
        Script::RedissonAcquire
        | Script::RedissonAdopt
        | Script::RedissonDescribe
        | Script::RedissonInspect
        | Script::RedissonRelease
        | Script::RedissonRenew
        | Script::RedissonRevoke => Redis::REDISSON_RIGHTS,
    }
}
