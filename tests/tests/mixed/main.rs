//! Fleets of several languages on one lock, with the layout `plain`: our own processes beside
//! redis-py's `Lock`, node-redlock, redsync, rslock, and in Java Jedis, Spring's
//! `RedisLockRegistry` and ShedLock.
//!
//! The programs are in `tests/mixed` and `tests/peers`; `cargo xtask test` installs what they need
//! and says so where it cannot. Each test then goes on without them, and says that too.
#![cfg(test)]

mod contender;
mod quorum;

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Client, Error, LockName};
use leasehold_testkit::{RedisServer, Worker, must, worker};

use self::contender::Kind;

/// How often each process adds.
const ROUNDS: usize = 10;

/// A lease that a test lets end: it waits for that long.
const BRIEF: Duration = Duration::from_millis(300);

/// Three parts, because ShedLock and Spring put a prefix before the requested name.
const NAME: &str = "jobs:mixed:nightly";
const COUNTER: &str = "counter";

#[test]
#[ignore = "a job of the tests above, for a separate process"]
fn job() {
    contender::work(&worker::arguments());
}

/// A server on which the lock's key is the name itself.
struct Fleet {
    server: RedisServer,
    client: Client,
}

impl Fleet {
    async fn start() -> Self {
        let server = must(RedisServer::start());
        let client = must(Client::connect(&contender::url(&[server.port()])).await);
        Self { server, client }
    }

    /// A process of this kind, if it is installed here.
    fn contender(&self, kind: Kind) -> Option<Worker> {
        kind.start(&[self.server.port()], NAME)
    }

    /// The holder's value, if the holder is not ours.
    async fn foreign_value(&self) -> Option<String> {
        let status = must(self.client.admin().inspect(&must(LockName::new(NAME))).await);
        status.foreign.map(|foreign| foreign.value)
    }

    fn value(&self) -> Option<Vec<u8>> {
        must(redis::cmd("GET").arg(NAME).query(&mut must(self.server.connection())))
    }
}

#[tokio::test]
async fn no_update_is_lost_with_many_processes_of_each_kind() {
    let fleet = Fleet::start().await;
    let kinds = Kind::FOREIGN.into_iter().chain([Kind::Ours]);
    let kinds = kinds.flat_map(|kind| vec![kind; kind.many()]);
    let mut workers: Vec<Worker> = kinds.filter_map(|kind| fleet.contender(kind)).collect();
    for worker in &mut workers {
        worker.tell(&format!("add {COUNTER} {ROUNDS}"));
    }
    for worker in &mut workers {
        worker.expect("added");
    }
    let added: usize = must(fleet.server.command(&format!("GET {COUNTER}")));
    assert_eq!(added, workers.len() * ROUNDS);
    assert_eq!(fleet.value(), None, "everybody has let go");
}

#[tokio::test]
async fn nobody_enters_or_releases_what_another_holds_under_the_same_key() {
    for kind in Kind::FOREIGN {
        let fleet = Fleet::start().await;
        let Some(mut theirs) = fleet.contender(kind) else { continue };
        theirs.ask("acquire 60000", "acquired");
        assert!(fleet.foreign_value().await.is_some(), "{kind:?}");
        assert!(must(fleet.client.mutex(NAME).try_acquire().await).is_none(), "{kind:?}");
        let prefixed = format!("{}&layout=plain&prefix=lh:", fleet.server.patient_url());
        let prefixed = must(Client::connect(&prefixed).await);
        assert!(must(prefixed.mutex(NAME).try_acquire().await).is_some(), "{kind:?}");
        theirs.ask("release", "released");
        // Their lease has ended and ours is taken: they cannot delete it.
        theirs.ask(&format!("acquire {}", BRIEF.as_millis()), "acquired");
        let lock = fleet.client.mutex(NAME).ttl(BRIEF).renewal(Renewal::Off);
        let guard = must(fleet.client.mutex(NAME).acquire().await);
        let ours = fleet.value();
        theirs.ask("release", kind.says_when_refused());
        assert_eq!(fleet.value(), ours, "{kind:?}");
        must(guard.ensure_held());
        must(guard.release().await);
        // Our lease has ended and theirs is taken: we cannot delete it.
        let guard = must(lock.acquire().await);
        theirs.ask("acquire 60000", "acquired");
        let value = fleet.value();
        assert!(matches!(guard.release().await, Err(Error::Lost { .. })), "{kind:?}");
        drop(must(fleet.client.mutex(NAME).try_acquire().await));
        assert_eq!(fleet.value(), value, "{kind:?}");
        theirs.ask("release", "released");
        assert_eq!(fleet.value(), None, "{kind:?}");
    }
}

#[tokio::test]
async fn a_holder_that_is_killed_costs_its_lease_and_then_the_other_kind_is_let_in() {
    for kind in Kind::FOREIGN {
        let fleet = Fleet::start().await;
        let Some(mut theirs) = fleet.contender(kind) else { continue };
        let Some(mut ours) = fleet.contender(Kind::Ours) else { panic!("it is ours") };
        ours.ask("acquire 1000", "acquired");
        theirs.tell("acquire 60000");
        ours.kill9();
        theirs.expect("acquired");
        assert!(fleet.foreign_value().await.is_some(), "{kind:?}");
        theirs.ask("release", "released");
        theirs.ask(&format!("acquire {}", BRIEF.as_millis()), "acquired");
        theirs.kill9();
        must(must(fleet.client.mutex(NAME).acquire().await).release().await);
    }
}
