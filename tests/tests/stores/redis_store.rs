//! The Redis store on real servers: connections, credentials, TLS, inboxes, and the kind of each
//! failure.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold::election::Observed;
use leasehold::store::{Inbox, Redis, Store};
use leasehold::{Client, Error, LossReason};
use leasehold_core::StoreErrorKind::{Denied, Unreachable, Unsupported};
use leasehold_core::{
    Action, Answer, ClientId, End, FencingToken, HolderId, LockName, Message, Operation, Reply,
    StoreError, StoreErrorKind,
};
use leasehold_testkit::harness::{request, retry, soon, until};
use leasehold_testkit::{Data, RedisServer, options_of};
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

fn id(client: u128, attempt: u64) -> HolderId {
    HolderId { client: ClientId(client), attempt }
}

pub(crate) fn on(name: &str, action: Action) -> Operation {
    Operation::On { name: LockName::new(name).unwrap(), action }
}

pub(crate) fn acquire(name: &str, id: HolderId, wait: bool) -> Operation {
    on(name, Action::Take(request(id).with_ttl(TTL).with_waits(wait)))
}

pub(crate) fn release(name: &str, id: HolderId) -> Operation {
    on(name, Action::End(End::new(request(id).request)))
}

fn granted(answer: &Answer) -> FencingToken {
    let Reply::Granted(grant) = answer.reply else { panic!("not granted: {answer:?}") };
    grant.token
}

async fn take_and_release(store: &Redis, name: &str) -> Result<FencingToken, StoreError> {
    let attempt = id(1, std::process::id().into());
    let token = granted(&store.execute(acquire(name, attempt, false)).await?);
    assert_eq!(store.execute(release(name, attempt)).await?.reply, Reply::Ended(true));
    Ok(token)
}

async fn opened() -> (RedisServer, Redis) {
    let server = RedisServer::start().unwrap();
    let store = Redis::open(options_of(&server.patient_url())).await.unwrap();
    (server, store)
}

/// Asks until the store answers again, as its users do.
async fn eventually(store: &Redis, name: &str) -> FencingToken {
    let asking = async {
        loop {
            match take_and_release(store, name).await {
                Ok(token) => return token,
                Err(error) => assert!(error.kind().is_transient(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(asking).await
}

/// Opening the store is refused with these words, in one line. Returns the kind of the error.
async fn refused(url: &str, words: &str) -> StoreErrorKind {
    let opened = Redis::open(options_of(url)).await;
    let Err(Error::Store(error)) = opened else { panic!("it is not refused: {opened:?}") };
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains('\n') && !shown.contains("hunter2"), "{shown}");
    assert!(shown.contains(words) && !error.may_have_executed(), "{error}");
    error.kind()
}

async fn next(inbox: &mut Box<dyn Inbox>) -> Message {
    soon(inbox.next()).await
}

#[tokio::test]
async fn a_lock_that_nobody_awaits_costs_a_set_a_number_and_one_call_to_end() {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(&server.patient_url()).await.unwrap();
    let pair = async || client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    pair().await;
    let lines = server.monitor().unwrap();
    pair().await;
    let mut sent = server.sent(lines).unwrap();
    sent.dedup(); // a counter that is behind the clock is raised twice
    let (taken, ended) = sent.split_at(6);
    assert_eq!(taken, ["MULTI", "SET", "EVALSHA", "(TIME)", "(INCRBY)", "EXEC"]);
    assert!(["EVALSHA (GET) (DEL)", "DELIFEQ", "DELEX"].contains(&&*ended.join(" ")), "{ended:?}");
    assert_eq!(server.command::<Vec<String>>("KEYS *").unwrap(), ["lh:%token"]);
}

#[tokio::test]
async fn a_revocation_before_the_store_knows_the_holder_is_found_when_the_holder_is_told() {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(&server.patient_url()).await.unwrap();
    let guard = client.mutex("a").ttl(Duration::from_hours(1)).acquire().await.unwrap();
    let holder = client.admin().inspect("a").await.unwrap().holders[0].id;
    assert!(client.admin().revoke("a", holder).await.unwrap());
    assert_eq!(soon(guard.lost()).await, Some(LossReason::Revoked));
}

#[tokio::test]
async fn a_client_that_has_just_connected_acquires_in_one_round_trip() {
    let (server, store) = opened().await;
    take_and_release(&store, "a").await.expect("the scripts are loaded");
    let client = Client::connect(&server.patient_url()).await.unwrap();
    server.command::<()>("CONFIG RESETSTAT").unwrap();
    let guard = client.mutex("a").try_acquire().await.unwrap().expect("it is free");
    guard.release().await.unwrap();
    assert_eq!(server.command_stats("evalsha").unwrap().0, 2);
}

#[tokio::test]
async fn names_are_listed_with_those_that_cannot_be_read_and_without_those_of_others() {
    let (server, store) = opened().await;
    for name in ["a*1", "a*2", "ab", "%"] {
        granted(&store.execute(acquire(name, id(1, 1), false)).await.unwrap());
    }
    store.execute(release("a*2", id(1, 1))).await.unwrap();
    server.command::<()>("MSET lh:{a*damaged} 1 other:a*3 1").unwrap();
    let list = async |prefix: &str| {
        let operation = Operation::List { prefix: prefix.into(), after: None, keys: 100 };
        let reply = store.execute(operation).await.unwrap().reply;
        let Reply::Page(page) = reply else { panic!("{reply:?}") };
        page.names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(list("a*").await, ["a*1", "a*damaged"]);
    assert_eq!(list("").await, ["%", "a*1", "a*damaged", "ab"]);
    assert_eq!(server.command_stats("keys").unwrap().0, 0);
}

#[tokio::test]
async fn many_callers_share_one_new_connection() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(Redis::open(options_of(&server.patient_url())).await.unwrap());
    server.command::<u32>("CLIENT KILL TYPE normal").unwrap();
    eventually(&store, "warm").await;
    server.command::<u32>("CLIENT KILL TYPE normal").unwrap();
    let connected = || server.number("stats", "total_connections_received:").unwrap();
    let before = connected();
    let callers: Vec<_> = (0..50)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { eventually(&store, &format!("n{number}")).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let opened = connected() - before - 1;
    assert!((1..=2).contains(&opened), "{opened} connections were opened");
}

#[tokio::test]
async fn a_stopped_server_is_a_timeout_after_which_anything_may_have_happened_until_it_is_given_up()
{
    let server = RedisServer::start().unwrap();
    let store = Redis::open(options_of(&format!("{}?timeout=100ms", server.url()))).await.unwrap();
    server.stop().unwrap();
    let refused = async || store.execute(acquire("a", id(1, 1), false)).await.unwrap_err();
    let error = refused().await;
    assert_eq!(error.kind(), StoreErrorKind::Timeout);
    assert!(error.may_have_executed());
    let asking = async {
        loop {
            let error = refused().await;
            if !error.may_have_executed() {
                return error;
            }
        }
    };
    assert_eq!(soon(asking).await.kind(), StoreErrorKind::Timeout);
    server.cont().unwrap();
    let answer = retry(async || store.execute(acquire("a", id(1, 1), false)).await).await;
    assert!(granted(&answer).micros() > 0);
}

#[tokio::test]
async fn wrong_credentials_and_missing_servers_are_named() {
    let server = RedisServer::options().password("secret").start().unwrap();
    assert_eq!(refused(&server.url_as("default", "hunter2"), "").await, Denied);
    assert_eq!(refused(&server.url(), "LEASEHOLD_PASSWORD").await, Denied);
    let store = Redis::open(options_of(&server.patient_url_as("default", "secret"))).await.unwrap();
    assert!(!format!("{store:?}").contains("secret"));
    assert_eq!(
        refused("redis://127.0.0.1:1", "127.0.0.1:1: nothing listens there").await,
        Unreachable
    );
    assert_eq!(refused("redis://nowhere.invalid", "").await, Unreachable);
    assert_eq!(refused("redis+unix:///nowhere.sock", "").await, Unreachable);
    let url = format!("redis://default:secret@127.0.0.1:{}/99", server.port());
    assert_eq!(refused(&url, "").await, Unsupported);
}

#[tokio::test]
async fn a_server_that_is_full_or_a_replica_is_an_outage_that_may_pass() {
    for (line, words) in [("maxclients 1", "maxclients"), ("replicaof 127.0.0.1 1", "replica")] {
        let server = RedisServer::options().line(line).start().unwrap();
        let _only = server.connection().unwrap();
        assert_eq!(refused(&server.url(), words).await, Unreachable);
    }
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_grants_nothing() {
    let (server, store) = opened().await;
    take_and_release(&store, "a").await.unwrap();
    server.command::<()>("REPLICAOF 127.0.0.1 1").unwrap();
    let error = store.execute(acquire("a", id(1, 1), false)).await.unwrap_err();
    assert_eq!(error.kind(), Unreachable);
    assert!(!error.may_have_executed());
    server.command::<()>("REPLICAOF NO ONE").unwrap();
    eventually(&store, "a").await;
}

#[tokio::test]
async fn what_weakens_a_promise_is_said_on_connecting() {
    let server = RedisServer::options().line("maxmemory-policy allkeys-lru").start().unwrap();
    let warnings = Redis::open(options_of(&server.patient_url())).await.unwrap().warnings();
    assert!(warnings.iter().any(|text| text.contains("noeviction")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("appendonly")), "{warnings:?}");
    let server = RedisServer::options().append_only("everysec").start().unwrap();
    let warnings = Redis::open(options_of(&server.patient_url())).await.unwrap().warnings();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn a_unix_socket_and_a_separate_database_are_used() {
    let server = RedisServer::start().unwrap();
    for url in [server.unix_url(), format!("redis://127.0.0.1:{}/3", server.port())] {
        let before = server.command::<u32>("DBSIZE").unwrap();
        let store = Redis::open(options_of(&url)).await.unwrap();
        take_and_release(&store, "a").await.unwrap();
        let is_used = server.command::<u32>("DBSIZE").unwrap() > before;
        assert_eq!(is_used, url.contains("unix"), "{url}");
    }
    assert!(server.info("keyspace").unwrap().contains("db3:keys=1"));
}

#[tokio::test]
async fn tls_needs_the_right_authority() {
    let server = RedisServer::options().tls(false).start().unwrap();
    let files = server.certificates().unwrap();
    let url = format!("{}?ca={}", server.url(), files.authority.display());
    let store = Redis::open(options_of(&url)).await.unwrap();
    take_and_release(&store, "a").await.unwrap();

    assert_eq!(refused(&server.url(), "ca=").await, Denied);
    let other = RedisServer::options().tls(false).start().unwrap();
    let foreign = other.certificates().unwrap().authority.display();
    assert_eq!(refused(&format!("{}?ca={foreign}", server.url()), "").await, Denied);
}

/// Asks until a new connection was refused with these words: an open one ends first.
async fn refused_for(store: &Redis, words: &str) {
    let is_refused = async || match take_and_release(store, "a").await {
        Err(error) => error.to_string().contains(words),
        Ok(_) => false,
    };
    soon(async { while !is_refused().await {} }).await;
}

#[tokio::test]
async fn each_new_connection_reads_the_file_of_the_authority() {
    let [server, other] = [(); 2].map(|()| RedisServer::options().tls(false).start().unwrap());
    let [right, wrong] = [&server, &other].map(|server| &server.certificates().unwrap().authority);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    fs::copy(right, &file).unwrap();
    let store =
        Redis::open(options_of(&format!("{}?ca={}", server.url(), file.display()))).await.unwrap();
    take_and_release(&store, "a").await.unwrap();
    let replace = |authority: Option<&PathBuf>| {
        match authority {
            Some(authority) => drop(fs::copy(authority, &file).unwrap()),
            None => fs::remove_file(&file).unwrap(),
        }
        let _: usize = server.command("CLIENT KILL TYPE normal").unwrap();
    };
    replace(Some(wrong));
    refused_for(&store, "name its authority with ca=").await;
    replace(None);
    refused_for(&store, "`ca` names ").await;
    replace(Some(right));
    take_and_release(&store, "a").await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_is_shown_when_the_server_asks_for_it() {
    let server = RedisServer::options().tls(true).start().unwrap();
    let files = server.certificates().unwrap();
    let url = format!("{}?ca={}", server.url(), files.authority.display());
    assert_eq!(refused(&url, "cert=").await, Denied);
    let (certificate, key) = (files.client.display(), files.client_key.display());
    let store =
        Redis::open(options_of(&format!("{url}&cert={certificate}&key={key}"))).await.unwrap();
    take_and_release(&store, "a").await.unwrap();
}

#[tokio::test]
async fn a_port_with_and_one_without_tls_are_told_apart() {
    let plain = RedisServer::start().unwrap();
    let url = plain.url().replace("redis://", "rediss://");
    refused(&url, "use redis://").await;
    let secured = RedisServer::options().tls(false).start().unwrap();
    let url = secured.url().replace("rediss://", "redis://");
    refused(&url, "rediss://").await;
}

/// Redisson: `testSubscriptionsPerConnection`.
#[tokio::test]
async fn clients_that_were_closed_are_subscribed_to_nothing() {
    let server = RedisServer::start().unwrap();
    let mut turns = tokio::task::JoinSet::new();
    for number in 0..4 {
        let client = Client::connect(server.patient_url()).await.unwrap();
        turns.spawn(async move {
            for turn in 0..10 {
                let name = format!("lock/{}", (number + turn) % 2);
                client.mutex(name).acquire().await.unwrap().release().await.unwrap();
            }
            client.close().await
        });
    }
    turns.join_all().await.into_iter().collect::<Result<(), _>>().unwrap();
    let channels = || server.command::<Vec<String>>("PUBSUB CHANNELS *").unwrap();
    let clients = || server.command::<String>("CLIENT LIST").unwrap().lines().count();
    until("all have gone", async || channels().is_empty() && clients() == 1).await;
}

#[tokio::test]
async fn a_killed_subscription_is_renewed_and_the_gap_is_told() {
    let (server, store) = opened().await;
    let mut inbox = store.inbox(ClientId(2)).await.unwrap();
    for round in 0..5 {
        server.command::<u32>("CLIENT KILL TYPE pubsub").unwrap();
        assert_eq!(next(&mut inbox).await, Message::Gap);
        let (holder, waiter) = (id(1, round), id(2, round));
        granted(&store.execute(acquire("a", holder, false)).await.expect("requests go on"));
        store.execute(acquire("a", waiter, true)).await.unwrap();
        store.execute(release("a", holder)).await.unwrap();
        let message = next(&mut inbox).await;
        assert!(matches!(message, Message::Granted { attempt, .. } if attempt == round));
        store.execute(release("a", waiter)).await.unwrap();
    }
}

#[tokio::test]
async fn an_inbox_survives_a_restart_of_the_server() {
    let (mut server, store) = opened().await;
    let mut inbox = store.inbox(ClientId(2)).await.unwrap();
    server.kill9().unwrap();
    assert!(timeout(Duration::from_millis(50), inbox.next()).await.is_err());
    server.restart(Data::Dropped).unwrap();
    assert_eq!(next(&mut inbox).await, Message::Gap);
}

#[tokio::test]
async fn a_half_open_subscription_is_noticed() {
    let server = RedisServer::start().unwrap();
    let store = Redis::open(options_of(&server.url())).await.unwrap();
    let mut inbox = store.inbox(ClientId(2)).await.unwrap();
    server.stop().unwrap();
    // A ping after 5 s, its timeout, and an attempt to connect that lasts 5 s.
    assert!(timeout(Duration::from_secs(10), inbox.next()).await.is_err());
    server.cont().unwrap();
    assert_eq!(next(&mut inbox).await, Message::Gap);
}

#[tokio::test]
async fn without_the_right_to_subscribe_an_inbox_stays_silent_and_says_so() {
    let rights = Redis::HOLDER_RIGHTS.replace("+subscribe ", "").replace("+info", "");
    let server = RedisServer::options().user(&format!("deaf on >pw {rights}")).start().unwrap();
    let store = Redis::open(options_of(&server.patient_url_as("deaf", "pw"))).await.unwrap();
    let mut inbox = store.inbox(ClientId(2)).await.unwrap();
    assert!(timeout(Duration::from_millis(50), inbox.next()).await.is_err());
    let warnings = store.warnings();
    assert!(warnings.iter().any(|text| text.contains("+info")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("subscribe")), "{warnings:?}");
}

#[tokio::test]
async fn who_observes_an_election_is_told_of_the_leaders_of_the_same_database_alone() {
    let server = RedisServer::start().unwrap();
    let client = async |database: u32| {
        let url = format!("redis://127.0.0.1:{}/{database}?timeout=30s", server.port());
        Client::connect(url).await.unwrap()
    };
    let (ours, theirs) = (client(0).await, client(1).await);
    let mut observation = ours.election("e").observe().await.unwrap();
    assert!(matches!(soon(observation.next()).await.unwrap(), Observed::Nobody));
    let there = theirs.election("e").campaign("there").await.unwrap();
    let here = ours.election("e").campaign("here").await.unwrap();
    let Observed::Leader(leader) = soon(observation.next()).await.unwrap() else {
        panic!("nobody is seen to lead");
    };
    assert_eq!((leader.value.as_str(), leader.token), ("here", here.guard().token()));
    there.resign().await.unwrap();
    here.resign().await.unwrap();
    assert!(matches!(soon(observation.next()).await.unwrap(), Observed::Nobody));
}
