//! Together with Redisson itself, in separate JVMs.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Client, Error, LockName, LossReason};
use leasehold_testkit::harness::{loss, until};
use leasehold_testkit::{Cluster, RedisServer, SentinelFleet, Worker, must};

use super::contender::{COUNTER, NAME, Place};

/// Our processes, and the JVMs with their threads.
const OURS: usize = 8;
const JVMS: usize = 2;
const THREADS: usize = 4;

/// How often each process and each thread adds.
const ROUNDS: usize = 10;

/// A lease that a test lets end: it waits for that long.
const BRIEF: Duration = Duration::from_millis(300);

/// A watchdog that keeps a lock alive for as long as a busy machine may take to renew it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(3);

/// A time that no test waits for.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// A server, a client of ours and a JVM.
pub(crate) struct Pair {
    pub(crate) server: RedisServer,
    pub(crate) place: Place,
    pub(crate) client: Client,
    pub(crate) java: Worker,
}

impl Pair {
    pub(crate) async fn start() -> Option<Self> {
        let server = must(RedisServer::start());
        let place = Place::one(&server);
        let (client, java) = (place.client().await, place.jvm(WATCHDOG)?);
        Some(Self { server, place, client, java })
    }

    /// Sends a line to the JVM, which must give this answer.
    #[track_caller]
    pub(crate) fn java(&mut self, line: &str, answer: &str) {
        self.java.ask(line, answer);
    }

    /// The holder, if it is not ours.
    async fn foreign(&self) -> Option<String> {
        let status = must(self.client.admin().inspect(&must(LockName::new(NAME))).await);
        status.foreign.map(|foreign| foreign.value)
    }

    fn is_there(&self) -> bool {
        must(self.server.command(&format!("EXISTS {NAME}")))
    }
}

/// Every process adds, one at a time.
const ALL_ADD: [&str; 2] = ["add lock"; 2];

/// Half of the processes read what the others write.
const HALF_READ: [&str; 2] = ["add write", "look"];

/// In each round, every second process does the first work, and the others do the second.
fn no_update_is_lost(place: &Place, rounds: &[[&str; 2]]) {
    let mut jvms: Vec<Worker> = (0..JVMS).filter_map(|_| place.jvm(MINUTE)).collect();
    let mut ours: Vec<Worker> = (0..OURS).map(|_| place.ours()).collect();
    let mut added = 0;
    for works in rounds {
        let ours = ours.iter_mut().map(|worker| (worker, 1));
        let all = ours.chain(jvms.iter_mut().map(|jvm| (jvm, THREADS)));
        let mut all: Vec<_> = all.zip(works.iter().cycle()).collect();
        for ((worker, threads), work) in &mut all {
            worker.tell(&format!("{work} {COUNTER} {ROUNDS} {threads}"));
        }
        for ((worker, threads), work) in all {
            let adds = work.starts_with("add");
            worker.expect(if adds { "added" } else { "looked" });
            added += usize::from(adds) * threads * ROUNDS;
        }
    }
    assert_eq!(place.added(), added);
}

#[test]
fn no_update_is_lost_between_readers_and_writers_of_both_languages() {
    let server = must(RedisServer::start());
    no_update_is_lost(&Place::one(&server), &[HALF_READ]);
}

#[test]
fn no_update_is_lost_between_jvms_and_ours_in_a_cluster() {
    let cluster = must(Cluster::start(0));
    no_update_is_lost(&Place::cluster(&cluster), &[ALL_ADD, HALF_READ]);
}

#[test]
fn no_update_is_lost_between_jvms_and_ours_behind_sentinels() {
    let fleet = must(SentinelFleet::start());
    no_update_is_lost(&Place::sentinel(&fleet), &[ALL_ADD]);
}

#[tokio::test]
async fn each_kind_of_redissons_locks_excludes_ours_and_is_excluded() {
    let Some(mut pair) = Pair::start().await else { return };
    let (mutex, rwlock) = (pair.client.mutex(NAME), pair.client.rwlock(NAME));
    for kind in ["lock", "fenced", "write"] {
        pair.java(&format!("acquire {kind} 0"), "acquired");
        for ours in [&mutex, &rwlock.write(), &rwlock.read()] {
            assert!(must(ours.try_acquire().await).is_none(), "{kind}");
        }
        pair.java("release", "released");
        for ours in [&mutex, &rwlock.write()] {
            let guard = must(ours.acquire().await);
            pair.java(&format!("try {kind}"), "busy");
            must(guard.release().await);
        }
        let reader = must(rwlock.read().acquire().await);
        pair.java(&format!("try {kind}"), "busy");
        must(reader.release().await);
    }
    pair.java("acquire read 0", "acquired");
    assert!(must(mutex.try_acquire().await).is_none());
    let reader = must(rwlock.read().acquire().await);
    pair.java("release", "released");
    assert!(must(mutex.try_acquire().await).is_none(), "ours still reads");
    pair.java("try read", "acquired");
    must(reader.release().await);
    assert!(must(mutex.try_acquire().await).is_none(), "theirs still reads");
    pair.java("release", "released");
    assert!(!pair.is_there(), "everybody has let go");
}

#[tokio::test]
async fn neither_side_releases_what_the_other_holds_unless_it_is_forced() {
    let Some(mut pair) = Pair::start().await else { return };
    // Their lease has ended and ours is taken.
    pair.java(&format!("acquire lock {}", BRIEF.as_millis()), "acquired");
    assert!(must(pair.foreign().await.ok_or("it is theirs")).contains("thread 1"));
    let guard = must(pair.client.mutex(NAME).acquire().await);
    pair.java("release", "refused");
    must(guard.renew().await);
    must(guard.release().await);
    // Our lease has ended and theirs is taken.
    let brief = pair.client.mutex(NAME).ttl(BRIEF).renewal(Renewal::Off);
    let guard = must(brief.acquire().await);
    pair.java("acquire lock 0", "acquired");
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    pair.java("held", "held");
    assert!(pair.foreign().await.is_some());
    pair.java("release", "released");
    // A forced unlock of theirs is noticed at the next renewal.
    let guard = must(pair.client.mutex(NAME).ttl(WATCHDOG).acquire().await);
    pair.java("force lock", "forced");
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    pair.java("try lock", "acquired");
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    pair.java("held", "held");
}

#[tokio::test]
async fn a_holder_that_is_killed_costs_its_lease_and_then_the_other_side_is_let_in() {
    for kind in ["lock", "read", "write"] {
        let Some(mut pair) = Pair::start().await else { return };
        let mut ours = pair.place.ours();
        ours.ask(&format!("acquire {kind} 1000"), "acquired");
        pair.java.tell("acquire write 0");
        ours.kill9();
        pair.java.expect("acquired");
        pair.java("release", "released");
        pair.java(&format!("acquire {kind} 0"), "acquired");
        pair.java.kill9();
        must(must(pair.client.mutex(NAME).acquire().await).release().await);
    }
}

#[tokio::test]
async fn a_watchdog_of_theirs_and_renewals_of_ours_keep_only_their_own() {
    let Some(mut pair) = Pair::start().await else { return };
    // Ours is renewed beside a reader of theirs whose lease ends, and the reverse.
    let reader = must(pair.client.rwlock(NAME).read().ttl(WATCHDOG).acquire().await);
    pair.java(&format!("acquire read {}", BRIEF.as_millis()), "acquired");
    tokio::time::sleep(WATCHDOG + BRIEF).await;
    must(reader.ensure_held());
    pair.java("held", "held"); // Redisson asks for the field alone, and does not know
    must(reader.release().await);
    assert!(must(pair.client.mutex(NAME).try_acquire().await).is_some(), "theirs has ended");
    pair.java("acquire read 0", "acquired");
    let brief = pair.client.rwlock(NAME).read().ttl(BRIEF).renewal(Renewal::Off);
    drop(must(brief.acquire().await));
    let brief = must(brief.acquire().await);
    tokio::time::sleep(WATCHDOG + BRIEF).await;
    assert_eq!(loss(&brief).await, LossReason::Expired);
    assert!(must(pair.client.mutex(NAME).try_acquire().await).is_none(), "theirs is renewed");
    let status = must(pair.client.admin().inspect(&must(LockName::new(NAME))).await);
    assert!(status.holders.is_empty(), "{status:?}");
    pair.java("release", "released");
    assert!(!pair.is_there(), "a reader of ours that has ended keeps nobody out");
}

#[tokio::test]
async fn a_watchdog_of_theirs_does_not_end_a_reader_of_ours() {
    let Some(mut pair) = Pair::start().await else { return };
    pair.java("acquire read 0", "acquired");
    let reader = must(pair.client.rwlock(NAME).read().ttl(WATCHDOG).acquire().await);
    tokio::time::sleep(WATCHDOG * 2).await;
    pair.java.kill9();
    tokio::time::sleep(WATCHDOG * 2).await;
    must(reader.renew().await);
    assert!(must(pair.client.mutex(NAME).try_acquire().await).is_none());
}

#[tokio::test]
async fn tokens_of_a_fenced_lock_grow_by_one_whichever_side_is_granted() {
    let Some(mut pair) = Pair::start().await else { return };
    let mut ours = pair.place.ours_of("redisson-fenced");
    for round in 0..3_u64 {
        pair.java("token 0", &(2 * round + 1).to_string());
        pair.java("release", "released");
        ours.ask("token 0", &(2 * round + 2).to_string());
        ours.ask("release", "released");
    }
}

#[tokio::test]
async fn a_release_of_either_side_wakes_the_waiters_of_the_other() {
    let Some(mut pair) = Pair::start().await else { return };
    for (theirs, ours) in [("lock", "mutex"), ("write", "write"), ("read", "write")] {
        // No lease ends during this test, so it fails without a message.
        let mutex = match ours {
            "mutex" => pair.client.mutex(NAME),
            _ => pair.client.rwlock(NAME).write(),
        };
        let guard = must(mutex.clone().ttl(MINUTE).acquire().await);
        pair.java.tell(&format!("acquire {theirs} 60000"));
        // The JVM has asked, has subscribed, and is about to ask again and to wait.
        let channel = if theirs == "lock" { "redisson_lock__channel" } else { "redisson_rwlock" };
        let subscribed = format!("PUBSUB NUMSUB {channel}:{{{NAME}}}");
        let subscribers = || must(pair.server.command::<(String, u32)>(&subscribed)).1;
        until("it has subscribed", async || subscribers() > 0).await;
        let since = std::time::Instant::now();
        must(guard.release().await);
        pair.java.expect("acquired");
        assert!(since.elapsed() < MINUTE / 2, "{theirs}");
        let waits = tokio::spawn(async move { mutex.acquire().await });
        pair.java("release", "released");
        must(must(must(waits.await)).release().await);
    }
}
