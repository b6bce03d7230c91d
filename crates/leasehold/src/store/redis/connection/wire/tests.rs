//! A wire and the server at its other end.

use std::sync::LazyLock;

use redis::{ErrorKind, Pipeline};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::store::redis::connection::call::{Own, Request, ScriptText};
use crate::store::redis::connection::link::{ROOM, SILENCE};
use crate::store::redis::connection::pushes::pushes;

const PATIENCE: Duration = Duration::from_secs(600);

static SCRIPT: LazyLock<ScriptText> =
    LazyLock::new(|| ScriptText { own: OWN, ..ScriptText::new("acquire".to_owned()) });

const OWN: Option<Own> = Some(Own { args: 1, of: 2 });

fn limits(most: usize) -> Limits {
    Limits { most, silence: SILENCE }
}

fn open(room: usize) -> (Wire, DuplexStream) {
    let (ours, theirs) = duplex(room);
    (Wire::open(Box::new(ours), None, limits(9)), theirs)
}

fn call(key: &str) -> Ask {
    Ask::Call(Arc::new(Request::new(&SCRIPT).with([key], [key, "inbox:"])))
}

fn packed(words: &[&str]) -> Vec<u8> {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&SCRIPT.sha1).arg(words);
    command.get_packed_command()
}

async fn expect(server: &mut DuplexStream, expected: &[u8]) {
    let mut found = vec![0; expected.len()];
    server.read_exact(&mut found).await.unwrap();
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

/// Sends three requests at the same time.
async fn ask_all(wire: &Wire) -> [RedisResult<Value>; 3] {
    let [a, b, c] = ["a", "b", "c"].map(|key| wire.send(call(key), PATIENCE));
    tokio::join!(a, b, c).into()
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[tokio::test]
async fn the_first_goes_alone_and_what_comes_meanwhile_together_and_each_has_its_own_reply() {
    let (wire, mut server) = open(4096);
    let asking = ask_all(&wire);
    let serving = async {
        expect(&mut server, &packed(&["1", "a", "a", "inbox:"])).await;
        expect(&mut server, &packed(&["2", "b", "c", "b", "c", "inbox:"])).await;
        server.write_all(b"$1\r\nA\r\n$2\r\nBC\r\n").await.unwrap();
    };
    let ([a, b, c], ()) = tokio::join!(asking, serving);
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()], ["A", "B", "C"].map(text));
}

#[tokio::test]
async fn requests_that_fill_a_call_are_written_by_the_latest_caller_before_the_driver_runs() {
    let (wire, mut server) = open(4096);
    let keys: Vec<_> = (0..=MOST_IN_A_CALL).map(|number| number.to_string()).collect();
    let mut asked = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let mut request = Box::pin(wire.send(call(key), PATIENCE));
        assert!(futures_util::poll!(&mut request).is_pending());
        asked.push(request);
        let mut bytes = [0; 4096];
        let written = match futures_util::poll!(std::pin::pin!(server.read(&mut bytes))) {
            Poll::Ready(count) => &bytes[..count.unwrap()],
            Poll::Pending => &[],
        };
        match number {
            0 => assert_eq!(written, packed(&["1", "0", "0", "inbox:"])),
            MOST_IN_A_CALL => {
                let end = format!("{key}\r\n$6\r\ninbox:\r\n");
                assert!(written.ends_with(end.as_bytes()), "{}", written.escape_ascii());
            }
            _ => assert!(written.is_empty(), "{written:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_not_answered_in_time_is_told_and_the_next_gets_no_reply_of_another() {
    let (wire, mut server) = open(4096);
    let late = wire.send(call("late"), Duration::from_millis(5)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
    let next = async { wire.send(call("next"), PATIENCE).await.unwrap() };
    let serving = async {
        expect(&mut server, &packed(&["1", "late", "late", "inbox:"])).await;
        expect(&mut server, &packed(&["1", "next", "next", "inbox:"])).await;
        server.write_all(b"$4\r\nlate\r\n$4\r\nnext\r\n").await.unwrap();
    };
    assert_eq!(tokio::join!(next, serving).0, text("next"));
}

#[tokio::test]
async fn what_is_dropped_before_it_is_sent_is_not_sent() {
    let (wire, mut server) = open(4096);
    let first = wire.send(call("first"), PATIENCE);
    let dropped = tokio::time::timeout(Duration::ZERO, async {
        tokio::join!(wire.send(call("a"), PATIENCE), wire.send(call("b"), PATIENCE))
    });
    let asking = async {
        let mut first = std::pin::pin!(first);
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let mut dropped = Box::pin(dropped);
        assert!(futures_util::poll!(dropped.as_mut()).is_pending());
        drop(dropped);
        tokio::join!(first, wire.send(call("last"), PATIENCE))
    };
    let serving = async {
        expect(&mut server, &packed(&["1", "first", "first", "inbox:"])).await;
        expect(&mut server, &packed(&["1", "last", "last", "inbox:"])).await;
        server.write_all(b"$1\r\n1\r\n$1\r\n2\r\n").await.unwrap();
    };
    let ((first, last), ()) = tokio::join!(asking, serving);
    assert_eq!([first.unwrap(), last.unwrap()], ["1", "2"].map(text));
}

#[tokio::test]
async fn a_request_longer_than_the_socket_takes_at_once_and_a_reply_as_long_arrive_whole() {
    let (wire, mut server) = open(64);
    let long = "x".repeat(5 * ROOM);
    let asking = async { wire.send(call(&long), PATIENCE).await.unwrap() };
    let serving = async {
        expect(&mut server, &packed(&["1", &long, &long, "inbox:"])).await;
        server.write_all(format!("${}\r\n{long}\r\n", long.len()).as_bytes()).await.unwrap();
    };
    assert_eq!(tokio::join!(asking, serving).0, text(&long));
}

#[tokio::test]
async fn all_are_told_when_the_server_goes_or_speaks_another_language_and_when_it_is_closed() {
    for (said, kind) in [(&b""[..], ErrorKind::Io), (b"HTTP/1.1 400\r\n", ErrorKind::Parse)] {
        let (wire, mut server) = open(4096);
        let both =
            async { tokio::join!(wire.send(call("a"), PATIENCE), wire.send(call("b"), PATIENCE)) };
        let serving = async {
            expect(&mut server, &packed(&["1", "a", "a", "inbox:"])).await;
            server.write_all(said).await.unwrap();
            drop(server);
        };
        let ((a, b), ()) = tokio::join!(both, serving);
        let next = wire.send(call("c"), PATIENCE).await;
        assert_eq!([a, b, next].map(|outcome| outcome.unwrap_err().kind()), [kind; 3]);
    }
    let (wire, _server) = open(4096);
    let closer = wire.closer();
    let closing = async { closer.abort() };
    let (asked, ()) = tokio::join!(wire.send(call("a"), PATIENCE), closing);
    assert!(asked.unwrap_err().is_connection_dropped());
}

#[tokio::test]
async fn a_server_that_answers_what_nobody_asked_is_not_heard_any_more() {
    let (wire, mut server) = open(4096);
    server.write_all(b"+OK\r\n").await.unwrap();
    while wire.is_open() {
        tokio::task::yield_now().await;
    }
    assert!(wire.send(call("a"), PATIENCE).await.is_err());
}

#[tokio::test]
async fn who_shares_a_call_that_is_refused_for_a_right_asks_again_alone() {
    let (wire, mut server) = open(4096);
    let asking = ask_all(&wire);
    let serving = async {
        expect(&mut server, &packed(&["1", "a", "a", "inbox:"])).await;
        expect(&mut server, &packed(&["2", "b", "c", "b", "c", "inbox:"])).await;
        server.write_all(b"$1\r\nA\r\n-NOPERM no\r\n").await.unwrap();
        expect(&mut server, &packed(&["1", "b", "b", "inbox:"])).await;
        expect(&mut server, &packed(&["1", "c", "c", "inbox:"])).await;
        server.write_all(b"$1\r\nB\r\n-NOPERM no\r\n").await.unwrap();
    };
    let ([_, b, c], ()) = tokio::join!(asking, serving);
    assert_eq!(b.unwrap(), text("B"));
    assert!(matches!(c.unwrap(), Value::ServerError(_)));
}

#[tokio::test]
async fn who_shares_a_call_that_stopped_half_way_for_a_right_is_told_and_asks_nothing_again() {
    let (wire, mut server) = open(4096);
    let asking = ask_all(&wire);
    let serving = async {
        expect(&mut server, &packed(&["1", "a", "a", "inbox:"])).await;
        expect(&mut server, &packed(&["2", "b", "c", "b", "c", "inbox:"])).await;
        let half_way = b"$1\r\nA\r\n-NOPERM ACL failure in script: no permission for 'hset'\r\n";
        server.write_all(half_way).await.unwrap();
        // A request that was sent again would get no answer.
        drop(server);
    };
    let ([_, b, c], ()) = tokio::join!(asking, serving);
    for told in [b, c] {
        assert!(matches!(told, Ok(Value::ServerError(_))), "{told:?}");
    }
}

#[tokio::test]
async fn what_is_pushed_between_replies_goes_its_own_way() {
    let (ours, mut server) = duplex(4096);
    let (sender, mut pushed) = pushes();
    let wire = Wire::open(Box::new(ours), Some(sender), limits(1));
    let mut subscribe = Pipeline::new();
    subscribe.cmd("SUBSCRIBE").arg("c").cmd("SUBSCRIBE").arg("d");
    let asking = async { wire.send((&subscribe).into(), PATIENCE).await.unwrap() };
    let serving = async {
        let confirmed = |channel| format!(">3\r\n+subscribe\r\n+{channel}\r\n:1\r\n");
        let message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
        let (c, d) = (confirmed("c"), confirmed("d"));
        let all = [c.as_bytes(), message, d.as_bytes()].concat();
        server.write_all(&all).await.unwrap();
    };
    let (Value::Array(replies), ()) = tokio::join!(asking, serving) else { panic!("no list") };
    assert_eq!(replies.len(), 2);
    assert_eq!(pushed.next().await, Some(b"hi".to_vec()));
    drop(server);
    assert_eq!(pushed.next().await, None, "nothing more will come");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drips_is_given_up_although_bytes_and_messages_come() {
    for said in [&b"x"[..], b">2\r\n+other\r\n+message\r\n"] {
        let (wire, mut server) = open(4096);
        if said.len() == 1 {
            server.write_all(b"$1000000\r\n").await.unwrap();
        }
        assert!(wire.send(call("a"), Duration::from_millis(500)).await.unwrap_err().is_timeout());
        for _ in 0..4 {
            server.write_all(said).await.unwrap();
            tokio::time::sleep(Duration::from_millis(490)).await;
        }
        assert!(!wire.is_open(), "{}", said.escape_ascii());
    }
}

#[tokio::test]
async fn replies_that_are_longer_in_all_than_a_reply_may_be_are_refused() {
    let (wire, mut server) = open(1 << 20);
    let mut each = Pipeline::new();
    for _ in 0..40 {
        each.cmd("GET").arg("x");
    }
    let reply = [b"$1048576\r\n", &[b'x'; 1 << 20][..], b"\r\n"].concat();
    let serving = async { while server.write_all(&reply).await.is_ok() {} };
    let (asked, ()) = tokio::join!(wire.send((&each).into(), PATIENCE), serving);
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::Parse);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_although_each_caller_goes_before_its_time_is_over()
{
    let limit = Duration::from_millis(500);
    let asking = async |wire: &Wire| {
        let _ = tokio::time::timeout(limit / 2, wire.send(call("a"), limit)).await;
        tokio::time::sleep(limit / 2).await;
    };
    let (wire, mut server) = open(4096);
    for _ in 0..3 {
        asking(&wire).await;
    }
    // An answer counts as a sign of life even if its caller has gone.
    server.write_all(b"$1\r\n1\r\n").await.unwrap();
    for _ in 0..3 {
        asking(&wire).await;
    }
    assert!(wire.is_open());
    for _ in 0..3 {
        asking(&wire).await;
    }
    assert!(!wire.is_open());
}
