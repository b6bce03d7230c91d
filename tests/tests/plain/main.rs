//! The layout `plain` on a real server, together with programs that do not know leasehold: what it
//! writes, what it leaves alone, and what it cannot do.
#![cfg(test)]

mod late;
mod places;
mod value;

use std::time::Duration;

use leasehold::FencingToken;
use leasehold::lease::Mode;
use leasehold::store::{Redis, Store};
use leasehold_core::{
    Action, ClientId, Description, End, Grant, HolderId, HolderInfo, Keep, LockName, Operation,
    Reply, Request, StoreError, Take,
};
use leasehold_testkit::{RedisServer, must, options_of};
use redis::Connection;

const TTL: Duration = Duration::from_secs(30);

/// The script with which node-redlock, redsync and the Redis documentation release.
const COMPARE_AND_DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
    return redis.call('del', KEYS[1]) else return 0 end";

/// A server, a store of ours on it, and a connection of another program.
pub(crate) struct Shared {
    pub(crate) server: RedisServer,
    pub(crate) store: Redis,
    pub(crate) theirs: Connection,
}

impl Shared {
    pub(crate) async fn start() -> Self {
        let server = must(RedisServer::start());
        let store = must(Redis::open(options_of(&plain(&server))).await);
        let theirs = must(server.connection());
        Self { server, store, theirs }
    }

    pub(crate) async fn act(&self, name: &str, action: Action) -> Result<Reply, StoreError> {
        let name = must(LockName::new(name));
        Ok(self.store.execute(Operation::On { name, action }).await?.reply)
    }

    pub(crate) async fn acquire(&self, name: &str, id: HolderId) -> Reply {
        must(self.act(name, Action::Take(request(id))).await)
    }

    pub(crate) async fn take(&self, name: &str, id: HolderId) -> Grant {
        match self.acquire(name, id).await {
            Reply::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn release(&self, name: &str, id: HolderId) -> Reply {
        must(self.act(name, release(id, Duration::ZERO)).await)
    }

    /// How another program takes a lock, as in the Redis documentation.
    pub(crate) fn they_take(&mut self, key: &str, value: &str, ttl: Duration) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        must(set.query::<Option<String>>(&mut self.theirs)).is_some()
    }

    /// How another program releases.
    pub(crate) fn they_release(&mut self, key: &str, value: &str) -> bool {
        let mut eval = redis::cmd("EVAL");
        eval.arg(COMPARE_AND_DELETE).arg(1).arg(key).arg(value);
        must(eval.query(&mut self.theirs))
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<String> {
        must(redis::cmd("GET").arg(key).query(&mut self.theirs))
    }
}

/// The URL of a store whose keys are the names themselves.
pub(crate) fn plain(server: &RedisServer) -> String {
    format!("{}&layout=plain&prefix=", server.patient_url())
}

pub(crate) fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

pub(crate) fn request(id: HolderId) -> Take {
    let info = HolderInfo::new("db-7", 42).with_label(Some("nightly".to_owned()));
    Take::new(Request::new(id, Mode::Exclusive, info), TTL)
}

fn renew(id: HolderId, ttl: Duration) -> Action {
    Action::Keep(Keep::new(request(id).request, ttl))
}

fn release(id: HolderId, cooldown: Duration) -> Action {
    Action::End(End::new(request(id).request).with_cooldown(cooldown))
}

pub(crate) fn describe(
    id: HolderId,
    token: FencingToken,
    info: HolderInfo,
    ttl: Duration,
) -> Action {
    let description = Box::new(Description::new(token, info));
    Action::Keep(Keep::new(request(id).request, ttl).with_description(Some(description)))
}

#[tokio::test]
async fn no_verb_of_ours_touches_what_somebody_else_holds() {
    let mut shared = Shared::start().await;
    let near_miss = format!("leasehold-1 {}0 1 held 1 h", id(1));
    for value in ["theirs", "", near_miss.as_str()] {
        assert!(shared.they_take("a", value, TTL));
        let ends = |theirs: &mut Connection| -> i64 {
            must(redis::cmd("PEXPIRETIME").arg("a").query(theirs))
        };
        let before = ends(&mut shared.theirs);
        let (id, ttl) = (id(1), TTL * 2);
        for action in [
            Action::Take(request(id)),
            Action::End(End::new(request(id).request).with_closes(true)),
            describe(id, FencingToken::from_micros(1), HolderInfo::default(), ttl),
            Action::Take(request(id).with_from(Some(self::id(2)))),
            release(id, Duration::ZERO),
            release(id, TTL),
            renew(id, ttl),
            Action::Revoke { id, force: true },
        ] {
            let reply = must(shared.act("a", action.clone()).await);
            let is_done =
                matches!(reply, Reply::Granted(_) | Reply::Kept { .. } | Reply::Ended(true));
            assert!(!is_done, "{action:?}: {reply:?}");
            assert_eq!(shared.get("a").as_deref(), Some(value), "{action:?}");
            assert_eq!(ends(&mut shared.theirs), before, "{action:?}");
        }
        assert!(shared.they_release("a", value));
    }
}

#[tokio::test]
async fn a_name_whose_key_is_no_string_is_reported_and_left_alone() {
    let mut shared = Shared::start().await;
    must(redis::cmd("HSET").arg("a").arg("f").arg("v").exec(&mut shared.theirs));
    shared.take("b", id(1)).await;
    for action in [
        Action::Take(request(id(1))),
        Action::Look { limit: 1 },
        renew(id(1), TTL),
        release(id(1), Duration::ZERO),
    ] {
        let error = shared.act("a", action).await.unwrap_err();
        assert_eq!(error.kind(), leasehold::error::StoreErrorKind::Corrupt, "{error}");
    }
    let keep = Keep::new(request(id(1)).request, TTL * 2);
    let lease = |name| (must(LockName::new(name)), keep.clone());
    let batch = Operation::Keep(vec![lease("a"), lease("b")]);
    let Reply::Many(replies) = must(shared.store.execute(batch).await).reply else { panic!() };
    assert_eq!(replies[0], Reply::Refused(leasehold_core::Refusal::Damaged));
    assert!(matches!(replies[1], Reply::Kept { .. }), "one damaged key fails no other renewal");
    let kept: String = must(redis::cmd("HGET").arg("a").arg("f").query(&mut shared.theirs));
    assert_eq!(kept, "v");
}
