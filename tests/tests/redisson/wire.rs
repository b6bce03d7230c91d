//! The data and the messages on the server: as Redisson writes and reads them.

use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::lease::{Mode, Renewal};
use leasehold::store::{Redis, Store};
use leasehold::{Client, Error};
use leasehold_core::time::micros;
use leasehold_core::{
    Action, Answer, ClientId, Description, End, HolderId, HolderInfo, Keep, LockName, Operation,
    Reply, Request, StoreError, Take,
};
use leasehold_testkit::harness::until;
use leasehold_testkit::{Cluster, RedisServer, must, options_of};
use redis::Connection;

const TTL: Duration = Duration::from_secs(30);

/// A server, a store of ours on it, and a connection of another program.
struct Shared {
    server: RedisServer,
    store: Redis,
    theirs: Connection,
}

impl Shared {
    async fn start() -> Self {
        Self::start_with("redisson").await
    }

    async fn start_with(layout: &str) -> Self {
        let server = must(RedisServer::start());
        let url = format!("{}&layout={layout}", server.patient_url());
        let store = must(Redis::open(options_of(&url)).await);
        let theirs = must(server.connection());
        Self { server, store, theirs }
    }

    async fn act(&self, action: Action) -> Result<Reply, StoreError> {
        Ok(self.answer(action).await?.reply)
    }

    async fn answer(&self, action: Action) -> Result<Answer, StoreError> {
        let name = must(LockName::new("a"));
        self.store.execute(Operation::On { name, action }).await
    }

    /// The time since which the only holder holds, in µs by the server's clock.
    async fn since_us(&self) -> u64 {
        let answer = must(self.answer(Action::Look { limit: 2 }).await);
        let Reply::Status(status) = &answer.reply else { panic!("{answer:?}") };
        let [holder] = &status.holders[..] else { panic!("{answer:?}") };
        answer.now.unwrap().lease_us - micros(holder.held_for)
    }

    async fn acquire(&self, attempt: u64, mode: Mode) -> Reply {
        must(self.act(Action::Take(request(attempt, mode))).await)
    }

    fn fields(&mut self) -> Vec<(String, String)> {
        let mut fields: Vec<_> = must(redis::cmd("HGETALL").arg("a").query(&mut self.theirs));
        fields.sort();
        fields
    }
}

fn url(server: &RedisServer) -> String {
    format!("{}&layout=redisson", server.patient_url())
}

fn id(attempt: u64) -> HolderId {
    HolderId { client: ClientId(0xabc), attempt }
}

const OWNER: &str = "00000000-0000-0000-0000-000000000abc";

fn request(attempt: u64, mode: Mode) -> Take {
    let info = HolderInfo::new("db-7", 42).with_label(Some("nightly".to_owned()));
    Take::new(Request::new(id(attempt), mode, info), TTL)
}

fn end(attempt: u64) -> End {
    End::new(request(attempt, Mode::Exclusive).request)
}

fn release(attempt: u64) -> Action {
    Action::End(end(attempt))
}

#[tokio::test]
async fn what_they_tell_is_heard_by_those_of_ours_who_wait() {
    let shared = Shared::start().await;
    let mut told =
        must(must(shared.store.subscribe(&must(LockName::new("a"))).await).ok_or("it has"));
    for channel in ["redisson_lock__channel:{a}", "redisson_rwlock:{a}"] {
        must(shared.server.command::<()>(&format!("PUBLISH {channel} 0")));
        assert_eq!(told.next().await.as_deref(), Some("0"));
    }
    let cluster = must(Cluster::start(0));
    let store = must(Redis::open(options_of(&format!("{}?layout=redisson", cluster.url()))).await);
    for name in ["a", "b", "c", "{d}e"] {
        let mut told =
            must(must(store.subscribe(&must(LockName::new(name))).await).ok_or("it has"));
        let node = cluster.node(must(cluster.owner(must(cluster.slot_of(name)))));
        let base = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        must(node.command::<()>(&format!("SPUBLISH redisson_rwlock:{base} 1")));
        assert_eq!(told.next().await.as_deref(), Some("1"));
    }
}

#[tokio::test]
async fn what_was_told_before_a_question_is_not_asked_about_again() {
    let shared = Shared::start().await;
    let [holds, waits] = [
        must(Client::connect(&url(&shared.server)).await),
        must(Client::connect(&url(&shared.server)).await),
    ];
    // Without renewals, which would count as polls.
    let _guard = must(holds.mutex("a").renewal(Renewal::Off).acquire().await);
    let wait = async || {
        let before = must(shared.server.command_stats("evalsha")).0;
        let waited = waits.mutex("a").acquire_within(Duration::from_millis(300)).await;
        assert!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
        must(shared.server.command_stats("evalsha")).0 - before
    };
    wait().await; // from now on it listens
    for _ in 0..50 {
        must(shared.server.command::<()>("PUBLISH redisson_rwlock:{a} 1"));
    }
    // One poll, one more after it has begun to listen, and at last one for the blocker.
    let asked = wait().await;
    assert!(asked <= 4, "it asked {asked} times");
}

#[tokio::test]
async fn a_late_copy_of_an_acquire_that_was_given_up_takes_nothing() {
    let mut shared = Shared::start().await;
    let given_up = |attempt| Action::End(end(attempt).with_closes(true));
    assert_eq!(must(shared.act(given_up(1)).await), Reply::Ended(false));
    assert_eq!(shared.acquire(1, Mode::Exclusive).await, Reply::Closed);
    shared.acquire(2, Mode::Exclusive).await;
    assert_eq!(must(shared.act(given_up(2)).await), Reply::Ended(true));
    assert_eq!(shared.acquire(2, Mode::Exclusive).await, Reply::Closed);
    assert!(shared.fields().is_empty());
}

#[tokio::test]
async fn a_late_copy_of_an_acquire_whose_lease_was_adopted_takes_nothing() {
    let mut shared = Shared::start().await;
    for (from, mode) in [(1, Mode::Exclusive), (3, Mode::Shared)] {
        assert!(matches!(shared.acquire(from, mode).await, Reply::Granted(_)));
        let adopt = Action::Take(request(from + 1, mode).with_from(Some(id(from))));
        assert!(matches!(shared.act(adopt).await, Ok(Reply::Granted(_))));
        assert_eq!(shared.acquire(from, mode).await, Reply::Closed, "while the adopter holds");
        assert!(matches!(shared.act(release(from + 1)).await, Ok(Reply::Ended(true))));
        assert_eq!(shared.acquire(from, mode).await, Reply::Closed);
        assert!(shared.fields().is_empty());
    }
}

#[tokio::test]
async fn a_late_copy_of_an_acquire_takes_nothing_after_a_cooldown_either() {
    let mut shared = Shared::start().await;
    for (first, mode) in [(1, Mode::Exclusive), (3, Mode::Shared)] {
        assert!(matches!(shared.acquire(first, mode).await, Reply::Granted(_)));
        let cooldown = Duration::from_millis(1);
        let release_late = Action::End(end(first).with_cooldown(cooldown).with_closes(true));
        assert_eq!(must(shared.act(release_late).await), Reply::Ended(true));
        let writer = first + 1;
        let is_over =
            async || matches!(shared.acquire(writer, Mode::Exclusive).await, Reply::Granted(_));
        until("the cooldown is over", is_over).await;
        must(shared.act(release(writer)).await);
        assert_eq!(shared.acquire(first, mode).await, Reply::Closed);
        assert!(shared.fields().is_empty());
    }
}

#[tokio::test]
async fn the_trace_of_a_reader_that_had_ended_keeps_no_writer_out() {
    let mut shared = Shared::start().await;
    for closes in [true, false] {
        let gives_up = Action::End(end(1).with_closes(closes));
        for attempt in [1, 2] {
            let reply = shared.acquire(attempt, Mode::Shared).await;
            assert!(matches!(reply, Reply::Granted(_)), "{reply:?}");
        }
        // Its lease ends, and its field stays in the hash that the other reader keeps.
        let entry = format!("{{a}}:{OWNER}:1:rwlock_timeout:1");
        must(redis::cmd("DEL").arg(&entry).exec(&mut shared.theirs));
        must(shared.act(gives_up).await);
        assert_eq!(shared.fields().len(), 2, "the other reader and the mode");
        must(shared.act(release(2)).await);
        assert!(matches!(shared.acquire(3, Mode::Exclusive).await, Reply::Granted(_)));
        must(shared.act(release(3)).await);
        must(redis::cmd("DEL").arg(&entry).exec(&mut shared.theirs));
    }
}

#[tokio::test]
async fn who_has_a_counted_token_holds_since_its_grant() {
    let shared = Shared::start_with("redisson-fenced").await;
    let Reply::Granted(grant) = shared.acquire(1, Mode::Exclusive).await else { panic!() };
    let since_us = shared.since_us().await;
    let renewal = Keep::new(request(1, Mode::Exclusive).request, TTL);
    let description = Box::new(Description::new(grant.token, HolderInfo::default()));
    must(shared.act(Action::Keep(renewal.clone().with_description(Some(description)))).await);
    must(shared.act(Action::Keep(renewal)).await);
    assert_eq!(shared.since_us().await, since_us);
    let adopt = Action::Take(request(2, Mode::Exclusive).with_from(Some(id(1))));
    assert!(matches!(shared.act(adopt).await, Ok(Reply::Granted(_))));
    let adopted_us = shared.since_us().await;
    assert!(adopted_us > since_us);
    let revoke = Action::Revoke { id: id(2), force: false };
    assert_eq!(must(shared.act(revoke).await), Reply::Ended(true));
    assert_eq!(shared.since_us().await, adopted_us);
}

#[tokio::test]
async fn readers_of_theirs_are_seen_as_readers_beside_ours() {
    let mut shared = Shared::start().await;
    shared.acquire(1, Mode::Shared).await;
    let theirs = "0d4c1ff9-5b3e-4b7e-9d7e-1c2f3a4b5c6d:51";
    must(redis::cmd("HSET").arg("a").arg(theirs).arg(1).exec(&mut shared.theirs));
    let entry = format!("{{a}}:{theirs}:rwlock_timeout:1");
    must(redis::cmd("SET").arg(entry).arg(&["1", "PX", "60000"]).exec(&mut shared.theirs));
    let client = must(Client::connect(&url(&shared.server)).await);
    let status = must(client.admin().inspect(&must(LockName::new("a"))).await);
    assert_eq!(status.holders.len(), 1);
    let foreign = must(status.foreign.ok_or("it is theirs"));
    assert_eq!(foreign.mode, Mode::Shared);
    assert!(foreign.value.ends_with("thread 51 reads"), "{foreign:?}");
}

#[tokio::test]
async fn a_reader_is_promised_no_more_than_their_watchdog_leaves_it() {
    let shared = Shared::start().await;
    let long = |mode| {
        let mut long = request(1, mode);
        long.ttl = TTL * 2;
        long
    };
    let error = shared.act(Action::Take(long(Mode::Shared))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("lockWatchdogTimeout"), "{error}");
    let client = must(Client::connect(&url(&shared.server)).await);
    let reader = must(client.rwlock("a").read().ttl(TTL).acquire().await);
    let Err(Error::Store(error)) = reader.renew_for(TTL * 2).await else { panic!("{reader:?}") };
    assert!(error.kind() == StoreErrorKind::Unsupported && reader.validity() <= TTL, "{error}");
    must(reader.release().await);
    assert!(matches!(shared.act(Action::Take(long(Mode::Exclusive))).await, Ok(Reply::Granted(_))));
}

#[tokio::test]
async fn the_locks_of_redisson_are_listed_and_other_data_is_not() {
    let mut shared = Shared::start().await;
    let theirs = "0d4c1ff9-5b3e-4b7e-9d7e-1c2f3a4b5c6d:51";
    must(redis::cmd("HSET").arg("lock").arg(&[theirs, "1"]).exec(&mut shared.theirs));
    let fields = ["mode", "read", theirs, "1"];
    must(redis::cmd("HSET").arg("rwlock").arg(&fields).exec(&mut shared.theirs));
    must(redis::cmd("HSET").arg("data").arg(&["mode", "dark"]).exec(&mut shared.theirs));
    must(redis::cmd("SET").arg("text").arg(theirs).exec(&mut shared.theirs));
    shared.acquire(1, Mode::Exclusive).await;
    let list = Operation::List { prefix: String::new(), after: None, keys: 100 };
    let Reply::Page(page) = must(shared.store.execute(list).await).reply else { panic!() };
    assert_eq!(page.names, ["a", "lock", "rwlock"].map(|name| must(LockName::new(name))));
}
