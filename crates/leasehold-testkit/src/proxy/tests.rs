//! Tests that every fault does what its name says.

use std::time::Instant;

use redis::{Client, Cmd, Connection, cmd};

use super::*;
use crate::server::RedisServer;

/// How long a test waits for a reply that must not come: long enough to see a reply.
const SHORT: Duration = Duration::from_millis(200);

/// How long a test waits for a reply that must come.
const LONG: Duration = Duration::from_secs(60);

/// A server with one of our scripts, and a proxy before it.
fn scene() -> (RedisServer, Proxy) {
    let server = RedisServer::start().unwrap();
    let load = cmd("SCRIPT").arg("LOAD").arg(Script::BootRecord.source()).to_owned();
    load.exec(&mut server.connection().unwrap()).unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    (server, proxy)
}

fn connect(proxy: &Proxy, patience: Duration) -> Connection {
    let connection = Client::open(proxy.url()).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(patience)).unwrap();
    connection
}

/// A call that is refused for its arguments. For these tests, a refusal is a good answer.
fn call() -> Cmd {
    cmd("EVALSHA").arg(Script::BootRecord.sha1()).arg(1).arg("k").to_owned()
}

fn calls(server: &RedisServer) -> u64 {
    server.command_stats("evalsha").unwrap().0
}

/// Whether the server answers, even with a refusal.
fn is_answered(connection: &mut Connection) -> bool {
    match call().exec(connection) {
        Ok(()) => true,
        Err(error) => !error.is_io_error(),
    }
}

fn strike(proxy: &Proxy, fault: Fault) {
    drop(proxy.strike(1, Script::BootRecord, fault));
}

#[test]
fn without_a_fault_everything_passes_and_the_nth_call_is_counted() {
    let (server, proxy) = scene();
    drop(proxy.strike(3, Script::BootRecord, Fault::LoseReply));
    let mut connection = connect(&proxy, SHORT);
    assert!(is_answered(&mut connection) && is_answered(&mut connection));
    assert!(!is_answered(&mut connection), "the third");
    assert_eq!(calls(&server), 3, "it was executed");
    strike(&proxy, Fault::HoldRequest);
    proxy.spare();
    assert!(is_answered(&mut connect(&proxy, LONG)), "no call is struck that was spared");
    assert_eq!(calls(&server), 4, "it was executed once");
}

#[test]
fn after_a_lost_reply_nothing_comes_on_that_connection_and_all_on_others() {
    let (_server, proxy) = scene();
    let mut connection = connect(&proxy, SHORT);
    strike(&proxy, Fault::LoseReply);
    assert!(!is_answered(&mut connection));
    assert!(!is_answered(&mut connection));
    assert!(is_answered(&mut connect(&proxy, LONG)));
}

#[test]
fn a_broken_reply_ends_its_connection() {
    for length in [0, 1, 7] {
        let (server, proxy) = scene();
        let mut connection = connect(&proxy, LONG);
        strike(&proxy, Fault::BreakReply(length));
        assert!(call().exec(&mut connection).unwrap_err().is_io_error());
        assert_eq!(calls(&server), 1);
        assert!(is_answered(&mut connect(&proxy, LONG)));
    }
}

#[test]
fn a_garbled_reply_is_none() {
    let (_server, proxy) = scene();
    let mut connection = connect(&proxy, LONG);
    strike(&proxy, Fault::GarbleReply);
    let error = call().exec(&mut connection).unwrap_err();
    assert!(error.code().is_none(), "no refusal of the server's: {error}");
}

#[test]
fn a_held_request_is_executed_when_it_is_delivered() {
    let (server, proxy) = scene();
    let mut connection = connect(&proxy, SHORT);
    strike(&proxy, Fault::HoldRequest);
    assert!(!is_answered(&mut connection));
    assert!(!is_answered(&mut connection), "what comes behind it is lost");
    assert_eq!(calls(&server), 0);
    let replies = proxy.deliver().unwrap();
    assert!(matches!(replies[..], [Value::ServerError(_)]), "{replies:?}");
    assert_eq!(calls(&server), 1);
    assert_eq!(proxy.deliver().unwrap(), [], "once");
}

#[test]
fn a_repeated_request_is_executed_twice_and_answered_once() {
    let (server, proxy) = scene();
    let mut connection = connect(&proxy, LONG);
    strike(&proxy, Fault::RepeatRequest);
    assert!(is_answered(&mut connection));
    let pong: String = cmd("PING").query(&mut connection).unwrap();
    assert_eq!(pong, "PONG", "the copy's reply is not taken for another's");
    assert_eq!(calls(&server), 2);
}

#[test]
fn a_repeated_reply_comes_twice() {
    let (_server, proxy) = scene();
    let mut connection = connect(&proxy, LONG);
    strike(&proxy, Fault::RepeatReply);
    assert!(is_answered(&mut connection));
    assert!(cmd("PING").query::<String>(&mut connection).is_err(), "the second one");
}

#[test]
fn what_is_held_back_arrives_afterwards_and_not_after_a_cut() {
    let (server, proxy) = scene();
    for hold in [Proxy::mute, Proxy::deafen] {
        let executed = calls(&server);
        let mut connection = connect(&proxy, SHORT);
        hold(&proxy, true);
        assert!(!is_answered(&mut connection));
        hold(&proxy, false);
        connection.set_read_timeout(Some(LONG)).unwrap();
        assert!(is_answered(&mut connection), "with what was held back, or after it");
        let since = Instant::now();
        while calls(&server) < executed + 2 {
            assert!(since.elapsed() < LONG, "both calls arrive");
        }
    }
    let executed = calls(&server);
    let mut connection = connect(&proxy, SHORT);
    proxy.swallow(true);
    assert!(!is_answered(&mut connection));
    proxy.cut();
    proxy.swallow(false);
    assert!(is_answered(&mut connect(&proxy, LONG)));
    assert_eq!(calls(&server), executed + 1, "what was cut never arrives");
}

#[test]
fn delayed_and_dripping_replies_take_their_time() {
    let (_server, proxy) = scene();
    let mut connection = connect(&proxy, LONG);
    let since = Instant::now();
    proxy.delay(Duration::from_millis(50));
    assert!(is_answered(&mut connection));
    assert!(since.elapsed() >= Duration::from_millis(100), "there and back");
    proxy.delay(Duration::ZERO);
    proxy.drip(Duration::from_millis(10));
    let since = Instant::now();
    cmd("PING").exec(&mut connection).unwrap();
    assert!(since.elapsed() >= Duration::from_millis(60), "+PONG, byte by byte");
}

#[test]
fn lost_messages_are_lost_and_nothing_else_is() {
    let (server, proxy) = scene();
    let url = format!("{}?protocol=resp3", proxy.url());
    let mut connection = Client::open(url).unwrap().get_connection().unwrap();
    let (sender, messages) = std::sync::mpsc::channel();
    connection.set_push_sender(sender);
    connection.subscribe_resp3("c").unwrap();
    cmd("PING").exec(&mut connection).unwrap();
    proxy.lose_messages(true);
    assert_eq!(server.command::<u32>("PUBLISH c lost").unwrap(), 1);
    cmd("PING").exec(&mut connection).unwrap();
    proxy.lose_messages(false);
    assert_eq!(server.command::<u32>("PUBLISH c kept").unwrap(), 1);
    cmd("PING").exec(&mut connection).unwrap();
    let kept = |push: &redis::PushInfo| push.kind == redis::PushKind::Message;
    let heard: Vec<_> = messages.try_iter().filter(kept).map(|push| push.data).collect();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains(&Value::BulkString(b"kept".to_vec())), "{heard:?}");
}
