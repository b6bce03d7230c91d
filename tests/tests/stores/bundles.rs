//! Requests that travel together on one connection: each name gets the same as it would alone.

use futures_util::future::join_all;
use leasehold::Client;
use leasehold::store::redis_wire::Script;
use leasehold::store::{Redis, Store};
use leasehold_core::{
    Action, Answer, ClientId, HolderId, Operation, Reply, StoreError, StoreErrorKind,
};
use leasehold_testkit::harness::{request, retry, soon};
use leasehold_testkit::{Fault, Proxy, RedisServer, options_of};

use super::redis_store::{self, on};

/// How many callers ask at the same time: at most as many as may share a call.
const CALLERS: u64 = 20;

fn id(caller: u64) -> HolderId {
    HolderId { client: ClientId(1), attempt: caller + 1 }
}

fn acquire(caller: u64) -> Operation {
    redis_store::acquire(&name(caller), id(caller), false)
}

fn release(caller: u64) -> Operation {
    redis_store::release(&name(caller), id(caller))
}

fn inspect(caller: u64) -> Operation {
    on(&name(caller), Action::Look { limit: 5 })
}

fn name(caller: u64) -> String {
    format!("name/{caller}")
}

/// All callers ask at the same moment, on one thread, each for a different name.
async fn at_once(
    store: &Redis,
    operation: impl Fn(u64) -> Operation,
) -> Vec<Result<Answer, StoreError>> {
    soon(join_all((0..CALLERS).map(|caller| store.execute(operation(caller))))).await
}

fn is_granted(outcome: &Result<Answer, StoreError>) -> bool {
    matches!(outcome.as_ref().map(|answer| &answer.reply), Ok(Reply::Granted(_)))
}

/// How many scripts were called since the last call of this function.
fn calls(server: &RedisServer) -> u64 {
    let (calls, _) = server.command_stats("evalsha").unwrap();
    server.command::<()>("CONFIG RESETSTAT").unwrap();
    calls
}

/// A store whose server knows every script that is used here.
async fn open(server: &RedisServer, url: &str) -> Redis {
    let store = Redis::open(options_of(url)).await.unwrap();
    for script in Script::ALL {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.source()).exec(&mut server.connection().unwrap()).unwrap();
    }
    store.execute(acquire(CALLERS)).await.unwrap();
    calls(server);
    store
}

#[tokio::test]
async fn what_is_ready_at_once_goes_in_one_call_behind_what_is_out() {
    let server = RedisServer::start().unwrap();
    let store = open(&server, &server.patient_url()).await;
    assert!(at_once(&store, acquire).await.iter().all(is_granted));
    assert_eq!(calls(&server), 2, "the first one alone, the others together");
    for (caller, outcome) in (0..).zip(at_once(&store, inspect).await) {
        let Reply::Status(status) = outcome.unwrap().reply else { panic!("no status") };
        assert_eq!(status.holders.iter().map(|one| one.id).collect::<Vec<_>>(), [id(caller)]);
    }
    calls(&server);
    for outcome in at_once(&store, release).await {
        assert_eq!(outcome.unwrap().reply, Reply::Ended(true));
    }
    assert_eq!(calls(&server), 2);
}

#[tokio::test]
async fn acquires_and_releases_that_are_ready_at_once_make_one_call_of_each_kind() {
    let server = RedisServer::start().unwrap();
    let store = open(&server, &server.patient_url()).await;
    let odd = |caller: &u64| caller % 2 == 1;
    for caller in (0..CALLERS).filter(odd) {
        store.execute(acquire(caller)).await.unwrap();
    }
    calls(&server);
    let mixed = |caller| if odd(&caller) { release(caller) } else { acquire(caller) };
    assert!(at_once(&store, mixed).await.iter().all(Result::is_ok));
    assert_eq!(calls(&server), 3, "the first one alone, then one of each");
}

#[tokio::test]
async fn a_release_and_the_acquire_behind_it_are_executed_in_that_order() {
    let server = RedisServer::start().unwrap();
    let store = open(&server, &server.patient_url()).await;
    assert!(at_once(&store, acquire).await.iter().all(is_granted));
    let again = |caller: u64| {
        let next = HolderId { client: ClientId(2), attempt: caller + 1 };
        on(&name(caller), Action::Take(request(next)))
    };
    let pairs = (0..CALLERS).flat_map(|caller| [release(caller), again(caller)]);
    let outcomes = soon(join_all(pairs.map(|operation| store.execute(operation)))).await;
    for pair in outcomes.chunks(2) {
        assert_eq!(pair[0].as_ref().unwrap().reply, Reply::Ended(true));
        assert!(is_granted(&pair[1]), "{pair:?}");
    }
}

#[tokio::test]
async fn a_record_that_is_damaged_concerns_nobody_but_who_asks_for_it() {
    let server = RedisServer::start().unwrap();
    let store = open(&server, &server.patient_url()).await;
    server.command::<()>("SET lh:{name/7} theirs").unwrap();
    server.command::<()>("SET lh:{name/8} h").unwrap();
    server.command::<()>("HSET lh:{name/9} theirs 1").unwrap();
    for operation in [acquire, inspect, release] {
        let outcomes = at_once(&store, operation).await;
        for (caller, outcome) in outcomes.into_iter().enumerate() {
            match caller {
                7..=9 => {
                    let error = outcome.unwrap_err();
                    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
                    assert!(!error.may_have_executed(), "{error}");
                    assert!(!error.to_string().contains('\n'), "{error}");
                }
                _ => assert!(matches!(
                    outcome.unwrap().reply,
                    Reply::Granted(_) | Reply::Status(_) | Reply::Ended(true)
                )),
            }
        }
    }
    assert_eq!(server.command::<String>("GET lh:{name/7}").unwrap(), "theirs");
    assert_eq!(server.command::<i64>("TTL lh:{name/9}").unwrap(), -1);
}

#[tokio::test]
async fn a_connection_that_is_lost_leaves_everybody_in_doubt_and_asking_again_helps() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let store = open(&server, &format!("{}?timeout=10s", proxy.url())).await;
    // The first call travels alone.
    let struck = proxy.strike(2, Script::Draw, Fault::BreakReply(0));
    let outcomes = at_once(&store, acquire).await;
    soon(struck.happened()).await;
    for outcome in &outcomes[1..] {
        let error = outcome.as_ref().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        assert!(error.may_have_executed(), "{error}");
    }
    let again = (0..CALLERS).map(|caller| {
        let store = &store;
        retry(async move || store.execute(acquire(caller)).await)
    });
    let outcomes = soon(join_all(again)).await;
    assert!(outcomes.into_iter().all(|answer| is_granted(&Ok(answer))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_several_threads_share_calls() {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(server.patient_url()).await.unwrap();
    client.mutex("first").acquire().await.unwrap().release().await.unwrap();
    calls(&server);
    let (tasks, rounds) = (64, 50);
    let task = |task: u64| {
        let lock = client.mutex(format!("task/{task}"));
        tokio::spawn(async move {
            for _ in 0..rounds {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        })
    };
    for outcome in soon(join_all((0..tasks).map(task))).await {
        outcome.unwrap();
    }
    let alone = 2 * tasks * rounds;
    let made = calls(&server);
    assert!(made < alone / 2, "{made} calls where {alone} would have been made one by one");
}
