//! The cost for a short job before it begins.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::harness::{Background, Place};

/// What names the script that takes a lock.
const TAKE: &[u8] = b"EVALSHA";

/// How long a reply is on its way: 200 ms.
const LATENCY: Duration = Duration::from_millis(200);

/// Which side sent last, and how often clients sent after the server, until one takes the lock.
#[derive(Debug, Default)]
struct Turns {
    is_clients: bool,
    count: u32,
    is_taken: bool,
}

/// A proxy of a server that counts round trips, of all connections together.
#[derive(Debug)]
struct CountingProxy {
    port: u16,
    turns: Arc<Mutex<Turns>>,
}

impl CountingProxy {
    fn to(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, turns) = (listener.local_addr().unwrap().port(), Arc::default());
        let counted = Arc::clone(&turns);
        thread::spawn(move || {
            for client in listener.incoming() {
                let server = TcpStream::connect(("127.0.0.1", server_port)).unwrap();
                let (client, seen) = (client.unwrap(), Arc::clone(&counted));
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || relay(client, server, true, &seen));
                let seen = Arc::clone(&counted);
                thread::spawn(move || relay(back, forth, false, &seen));
            }
        });
        Self { port, turns }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, is_clients: bool, turns: &Mutex<Turns>) {
    let mut bytes = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        // As in a network: requests that were sent without waiting arrive before a reply is back.
        if !is_clients {
            thread::sleep(LATENCY);
        }
        let mut turns = turns.lock().unwrap();
        if !turns.is_taken {
            turns.count += u32::from(is_clients && !turns.is_clients);
            turns.is_clients = is_clients;
            turns.is_taken = bytes[..length].windows(TAKE.len()).any(|part| part == TAKE);
        }
        drop(turns);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _closed = to.shutdown(Shutdown::Both);
}

#[test]
fn a_command_starts_after_three_round_trips() {
    let mut place = Place::on_redis();
    // The server knows the scripts, as it does after the first use of the first client.
    place.end(&["run", "x", "--", "true"]).assert_silent(0);
    let proxy = CountingProxy::to(place.server.as_ref().unwrap().port());
    place.url = format!("redis://127.0.0.1:{}/", proxy.port);
    let mut started = Background::fed(place.shell("x", &[], "echo started; cat"));
    assert_eq!(started.line(), "started");
    // HELLO, then INFO with TIME, and the script that takes the lock. Meanwhile the keeper opens
    // its own connections.
    assert_eq!(proxy.turns.lock().unwrap().count, 3);
}

/// It says who holds, so a script takes the lock. A lock without a label is taken with less.
#[test]
fn a_run_is_a_script_that_takes_and_one_that_ends_and_leaves_only_the_counter() {
    let place = Place::on_redis();
    let server = place.server.as_ref().unwrap();
    let run = || place.end(&["run", "x", "--", "true"]).assert_silent(0);
    run();
    let lines = server.monitor().unwrap();
    run();
    let mut sent = server.sent(lines).unwrap();
    assert!(sent.ends_with(&["EVALSHA", "(GET)", "(DEL)"].map(str::to_owned)), "{sent:?}");
    let connects = ["HELLO", "INFO", "SUBSCRIBE", "TIME"];
    sent.retain(|word| !word.starts_with('(') && !connects.contains(&&**word));
    assert_eq!(sent, ["EVALSHA", "EVALSHA"]);
    let left: Vec<String> = server.command("KEYS *").unwrap();
    assert_eq!(left, ["lh:%token"]);
}
