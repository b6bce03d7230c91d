//! Faults of a real server under the library: what each is called, that nobody holds a lock twice
//! within validity, that no waiter is left behind, and that tokens go on growing.
#![cfg(test)]

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use leasehold::{Client, Error, FencingToken, Guard, LossReason, Lost, StoreErrorKind};
use leasehold_testkit::{Data, Proxy, RedisServer};
use tokio::time::{sleep, timeout};

/// How long something that must happen may take before the test gives it up: generous.
const PATIENCE: Duration = Duration::from_secs(60);

/// Short, so that contention goes on soon after a lease that nobody gives back.
const TTL: Duration = Duration::from_secs(2);

/// For leases whose end a test waits for: long enough that none ends before the test has come to
/// it, on a machine that is busy with other things.
const WAITED_FOR: Duration = Duration::from_secs(4);

/// For leases that must not end by time in a test, however busy the machine is.
const LONG: Duration = Duration::from_secs(600);

/// For leases whose holder is to find out by a renewal, a third of this later, that they are gone,
/// before they end by time.
const RENEWED: Duration = Duration::from_secs(9);

/// How many tasks of one client want the same lock.
const TASKS: u32 = 4;

/// How often the trouble comes before contention may end: more than once, on any machine.
const OFTEN: u32 = 3;

/// Whether the server kept what it had acknowledged. If not, two may hold a lock for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Kept,
    Lost,
}

/// What a lock protects: finds out whether two are in it at once, or come in the wrong order.
struct Section {
    memory: Memory,
    inside: Mutex<Option<(FencingToken, Lost)>>,
    tokens: Mutex<BTreeSet<FencingToken>>,
}

impl Section {
    fn new(memory: Memory) -> Self {
        Self { memory, inside: Mutex::default(), tokens: Mutex::default() }
    }

    /// Whoever was in it before must have left, or must know that its lease has ended.
    fn enter(&self, guard: &Guard) {
        let token = guard.token();
        let before = self.inside.lock().unwrap().replace((token, guard.lost()));
        let mut tokens = self.tokens.lock().unwrap();
        if self.memory == Memory::Kept {
            if let Some((other, lost)) = before {
                assert!(has_ended(lost), "{other} and {token} are held at once");
            }
            let newest = tokens.last();
            assert!(newest.is_none_or(|newest| *newest < token), "{newest:?} was before {token}");
        }
        assert!(tokens.insert(token), "{token} was granted twice");
    }

    fn leave(&self, guard: &Guard) {
        let mut inside = self.inside.lock().unwrap();
        if inside.as_ref().is_some_and(|(token, _)| *token == guard.token()) {
            *inside = None;
        }
    }
}

fn has_ended(mut lost: Lost) -> bool {
    Pin::new(&mut lost).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

async fn connect(url: &str, clients: u32) -> Vec<Client> {
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(connect_one(url).await);
    }
    connected
}

/// On a busy machine a healthy server may be too slow for the timeouts that the tests need.
async fn connect_one(url: &str) -> Client {
    let since = Instant::now();
    loop {
        match Client::connect(url).await {
            Ok(client) => return client,
            Err(error) => assert!(error.is_transient() && since.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// Four tasks of each client take turns, so often each, whatever befalls the server meanwhile.
async fn contend(clients: &[Client], rounds: u32, memory: Memory) {
    contend_until(clients, rounds, memory, || true).await;
}

/// The same for as long as the trouble has not come often: how fast a machine is decides how many
/// turns fit in between, never whether the test has tested anything.
async fn contend_during(trouble: Hurting, clients: &[Client], rounds: u32, memory: Memory) {
    let times = trouble.times();
    let has_come_often = move || times.load(Ordering::Relaxed) >= OFTEN;
    contend_until(clients, rounds, memory, has_come_often).await;
    trouble.end();
}

async fn contend_until(
    clients: &[Client],
    rounds: u32,
    memory: Memory,
    may_end: impl Fn() -> bool + Clone + Send + 'static,
) {
    let section = Arc::new(Section::new(memory));
    let mut running = Vec::new();
    for client in clients {
        for _ in 0..TASKS {
            let (client, section, may_end) =
                (client.clone(), Arc::clone(&section), may_end.clone());
            running.push(tokio::spawn(async move {
                let mut turns = 0;
                while turns < rounds || !may_end() {
                    take_turn(&client, &section).await;
                    turns += 1;
                }
                turns as usize
            }));
        }
    }
    let mut visits = 0;
    for task in running {
        visits += timeout(PATIENCE, task).await.expect("no waiter is left behind").unwrap();
    }
    assert_eq!(section.tokens.lock().unwrap().len(), visits);
}

async fn take_turn(client: &Client, section: &Section) {
    let guard = client.mutex("contended").ttl(TTL).acquire().await.unwrap();
    section.enter(&guard);
    tokio::task::yield_now().await;
    section.leave(&guard);
    // Not being answered, or having lost the lease, is what the faults are for.
    match guard.release().await {
        Ok(()) | Err(Error::Indeterminate { .. } | Error::Lost { .. } | Error::Store(_)) => {}
        Err(other) => panic!("{other}"),
    }
}

/// Hurts the server again and again, but ever more rarely: so that turns are taken in between on
/// the slowest machine, too.
struct Hurting {
    stop: Arc<AtomicBool>,
    times: Arc<AtomicU32>,
    thread: std::thread::JoinHandle<()>,
}

impl Hurting {
    fn every(pause: Duration, mut hurt: impl FnMut() + Send + 'static) -> Self {
        let (stop, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&times));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                hurt();
                let times = counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(pause * (1 + times / 8));
            }
        });
        Self { stop, times, thread }
    }

    /// How often it was done so far.
    fn times(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.times)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server was hurt as intended");
    }
}

fn hurting(server: &RedisServer, pause: Duration, command: &'static str) -> Hurting {
    let mut connection = server.connection().unwrap();
    Hurting::every(pause, move || {
        let mut words = redis::Cmd::new();
        command.split(' ').for_each(|word| {
            words.arg(word);
        });
        words.exec(&mut connection).unwrap();
    })
}

async fn lost(guard: &Guard) -> LossReason {
    timeout(PATIENCE, guard.lost()).await.expect("the loss is told")
}

async fn refusal(url: &str) -> StoreErrorKind {
    match Client::connect(url).await {
        Err(Error::Store(error)) => error.kind(),
        other => panic!("expected a store error: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_subscribers_lose_no_waiter() {
    let server = RedisServer::start().unwrap();
    let clients = connect(&server.url(), 4).await;
    let killing = hurting(&server, Duration::from_millis(100), "CLIENT KILL TYPE pubsub");
    contend_during(killing, &clients, 40, Memory::Kept).await;
}

#[tokio::test]
async fn a_holder_whose_messages_may_have_been_lost_asks_whether_it_still_holds() {
    let server = RedisServer::start().unwrap();
    let clients = connect(&server.url(), 1).await;
    let guard = clients[0].mutex("a").ttl(Duration::from_secs(3600)).acquire().await.unwrap();
    // The next renewal by itself is twenty minutes away.
    server.command::<()>("FLUSHALL").unwrap();
    server.command::<()>("CLIENT KILL TYPE pubsub").unwrap();
    let reason = timeout(Duration::from_secs(60), guard.lost()).await.unwrap();
    assert_eq!(reason, LossReason::Vanished);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_lose_no_waiter_and_no_lease() {
    let server = RedisServer::start().unwrap();
    let clients = connect(&server.url(), 4).await;
    let killing = hurting(&server, Duration::from_millis(100), "CLIENT KILL TYPE normal");
    contend_during(killing, &clients, 20, Memory::Kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_grant_nothing_twice_and_leave_nothing_behind() {
    let server = RedisServer::start().unwrap();
    let proxy = Arc::new(Proxy::start(server.port()).unwrap());
    let clients = connect(&proxy.url(), 4).await;
    let losing = Hurting::every(Duration::from_millis(100), {
        let proxy = Arc::clone(&proxy);
        move || {
            proxy.mute(true);
            std::thread::sleep(Duration::from_millis(20));
            proxy.cut();
            proxy.mute(false);
        }
    });
    contend_during(losing, &clients, 15, Memory::Kept).await;
    for client in clients {
        client.close().await.unwrap();
    }
    let watcher = connect_one(&server.patient_url()).await;
    assert!(watcher.admin().list("", 10).await.unwrap().is_empty(), "something is still held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_not_noticed() {
    let server = RedisServer::start().unwrap();
    let clients = connect(&server.url(), 4).await;
    let flushing = hurting(&server, Duration::from_millis(20), "SCRIPT FLUSH");
    contend_during(flushing, &clients, 40, Memory::Kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_privileged_user_needs_nothing_more_under_contention() {
    let server = RedisServer::options().holder().start().unwrap();
    contend(&connect(&server.holder_url(), 4).await, 20, Memory::Kept).await;
    let client = connect_one(&server.holder_url()).await;
    let reader = client.rwlock("r").read().acquire().await.unwrap();
    let permit = client.semaphore("s", 3).permits(2).acquire().await.unwrap();
    reader.release().await.unwrap();
    permit.release().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(server.acl_log().unwrap().len(), 0, "{:?}", server.acl_log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_publish_waiters_find_out_by_asking() {
    let rights = leasehold::store::Redis::HOLDER_RIGHTS.replace("+publish ", "");
    let server = RedisServer::options().user(&format!("mute on >pw {rights}")).start().unwrap();
    contend(&connect(&server.url_as("mute", "pw"), 2).await, 1, Memory::Kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_server_costs_the_lease_and_tokens_go_on_growing() {
    for command in ["FLUSHALL", "DEL lh:a"] {
        let server = RedisServer::start().unwrap();
        let client = connect_one(&server.url()).await;
        let other = connect_one(&server.url()).await;
        let guard = client.mutex("a").ttl(RENEWED).acquire().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("a").ttl(RENEWED).acquire().await });
        queued(&client, "a", 1).await;
        server.command::<()>(command).unwrap();
        let reason = lost(&guard).await;
        let vanished = matches!(reason, LossReason::Vanished | LossReason::Superseded { .. });
        assert!(vanished, "{command}: {reason:?}");
        assert!(matches!(guard.ensure_held(), Err(Error::Lost { .. })));
        let next = timeout(PATIENCE, waiting).await.expect("the waiter gets in").unwrap().unwrap();
        assert!(next.token() > guard.token(), "{command}");
        assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
        assert!(next.is_held(), "the late release touches nobody");
    }
}

/// Waits until so many wait for a name.
async fn queued(client: &Client, name: &str, many: u32) {
    let name = leasehold::LockName::new(name).unwrap();
    let since = Instant::now();
    // No answer is no reason to fail: there are enough of them on a busy machine.
    while client.admin().inspect(&name).await.map_or(0, |status| status.waiting) < many {
        assert!(since.elapsed() < PATIENCE, "nobody joins the queue");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushes_under_contention_leave_nobody_behind_and_grant_no_token_twice() {
    let server = RedisServer::start().unwrap();
    let clients = connect(&server.url(), 4).await;
    let flushing = hurting(&server, Duration::from_millis(50), "FLUSHALL");
    contend_during(flushing, &clients, 10, Memory::Lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_type_is_a_typed_error_until_it_is_deleted() {
    let server = RedisServer::start().unwrap();
    let client = connect_one(&server.url()).await;
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    server.command::<()>("SET lh:a mine").unwrap();
    lost(&guard).await;
    match client.mutex("a").try_acquire().await {
        Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}"),
        other => panic!("{other:?}"),
    }
    match client.mutex("a").acquire().await {
        Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.command::<String>("GET lh:a").unwrap(), "mine");
    server.command::<()>("DEL lh:a").unwrap();
    let next = client.mutex("a").acquire().await.unwrap();
    assert!(next.token() > guard.token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_an_append_only_file_costs_no_lease() {
    let mut server = RedisServer::options().append_only("always").start().unwrap();
    let client = connect_one(&server.url()).await;
    let other = connect_one(&server.url()).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    let token = guard.token();
    let waiting = tokio::spawn(async move { other.mutex("a").ttl(TTL).acquire().await });
    queued(&client, "a", 1).await;
    server.restart(Data::Kept).unwrap();
    guard.renew().await.expect("the lease is still known");
    assert!(guard.is_held());
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let next = timeout(PATIENCE, waiting).await.expect("the waiter gets in").unwrap().unwrap();
    assert!(next.token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_data_costs_the_lease_and_tokens_go_on_growing() {
    let mut server = RedisServer::start().unwrap();
    let client = connect_one(&server.url()).await;
    let other = connect_one(&server.url()).await;
    let guard = client.mutex("a").ttl(RENEWED).acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("a").ttl(RENEWED).acquire().await });
    queued(&client, "a", 1).await;
    server.restart(Data::Dropped).unwrap();
    let next = timeout(PATIENCE, waiting).await.expect("the waiter gets in").unwrap().unwrap();
    assert!(next.token() > guard.token());
    lost(&guard).await;
    assert!(next.is_held());
}

async fn contend_during_restarts(data: Data, memory: Memory) {
    let server = RedisServer::options().append_only("always").start().unwrap();
    let clients = connect(&server.url(), 4).await;
    let server = Arc::new(Mutex::new(server));
    let restarting = Hurting::every(Duration::from_millis(300), {
        let server = Arc::clone(&server);
        move || server.lock().unwrap().restart(data).unwrap()
    });
    contend_during(restarting, &clients, 20, memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_with_an_append_only_file_leave_nobody_behind_under_contention() {
    contend_during_restarts(Data::Kept, Memory::Kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_without_data_leave_nobody_behind_under_contention() {
    contend_during_restarts(Data::Dropped, Memory::Lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_for_two_leases_costs_the_lease_in_time_and_no_waiter() {
    let server = RedisServer::start().unwrap();
    let client = connect_one(&server.url()).await;
    let other = connect_one(&server.url()).await;
    let guard = client.mutex("a").ttl(WAITED_FOR).acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("a").ttl(LONG).acquire().await });
    queued(&client, "a", 1).await;
    let since = Instant::now();
    server.stop().unwrap();
    assert_eq!(lost(&guard).await, LossReason::Expired);
    sleep((WAITED_FOR * 2).saturating_sub(since.elapsed())).await;
    assert!(!waiting.is_finished());
    server.cont().unwrap();
    let next = timeout(PATIENCE, waiting).await.expect("the waiter gets in").unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    assert!(next.is_held(), "the late release touches nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_new_locks_and_blocks_no_release_and_no_renewal() {
    let server = RedisServer::start().unwrap();
    let client = connect_one(&server.patient_url()).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    server.command::<()>("CONFIG SET maxmemory 1").unwrap();
    for verb in
        [client.mutex("b").acquire().await, client.mutex("b").acquire_within(PATIENCE).await]
    {
        match verb {
            Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Full, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    guard.renew().await.unwrap();
    guard.release().await.unwrap();
    server.command::<()>("CONFIG SET maxmemory 0").unwrap();
    client.mutex("b").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_used_is_a_typed_error_within_seconds() {
    let secured = RedisServer::options().password("secret").start().unwrap();
    let since = Instant::now();
    assert_eq!(refusal(&secured.url_as("default", "wrong")).await, StoreErrorKind::Denied);
    assert_eq!(refusal("redis://127.0.0.1:1").await, StoreErrorKind::Unreachable);
    let plain = RedisServer::start().unwrap();
    let url = plain.url().replace("redis://", "rediss://");
    refusal(&format!("{url}?connect_timeout=1s")).await;
    assert!(since.elapsed() < PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_user_ends_waiting_with_a_typed_error() {
    let server = RedisServer::options().holder().start().unwrap();
    let client = connect_one(&server.holder_url()).await;
    let guard = client.mutex("a").ttl(WAITED_FOR).acquire().await.unwrap();
    let waiter = client.clone();
    let waiting = tokio::spawn(async move { waiter.mutex("a").ttl(LONG).acquire().await });
    let watcher = connect_one(&server.url()).await;
    queued(&watcher, "a", 1).await;
    server.command::<()>("ACL SETUSER holder -evalsha").unwrap();
    match timeout(PATIENCE, waiting).await.expect("waiting ends").unwrap() {
        Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(lost(&guard).await, LossReason::Expired);
}

#[test]
fn one_static_client_serves_several_runtimes_one_after_another() {
    static CLIENT: std::sync::OnceLock<Client> = std::sync::OnceLock::new();
    let server = RedisServer::start().unwrap();
    let mut newest = None;
    for _ in 0..4 {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let token = runtime.block_on(async {
            if CLIENT.get().is_none() {
                CLIENT.set(connect_one(&server.url()).await).unwrap();
            }
            let client = CLIENT.get().unwrap();
            let guard = client.mutex("a").acquire().await.unwrap();
            let token = guard.token();
            // Dropped while the runtime ends: the keeper lets go of it.
            drop(guard);
            token
        });
        assert!(newest.is_none_or(|newest| newest < token));
        newest = Some(token);
    }
}
