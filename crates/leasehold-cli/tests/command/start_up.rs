//! The cost for a short job before it begins.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::harness::{Background, Place};

/// How long a reply is on its way: 500 ms, longer than a busy machine keeps a thread waiting.
const LATENCY: Duration = Duration::from_millis(500);

/// Which side sent last, and how often clients sent after the server, until one takes the lock.
#[derive(Debug, Default)]
struct Turns {
    is_clients: bool,
    count: u32,
    is_taken: bool,
}

/// Starts a proxy of a server that counts the round trips of all connections. Returns its port.
fn counting_proxy(server_port: u16, turns: Arc<Mutex<Turns>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().map(Result::unwrap) {
            let server = TcpStream::connect(("127.0.0.1", server_port)).unwrap();
            let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            for (from, to, is_clients) in [(client, server, true), (back, forth, false)] {
                let turns = Arc::clone(&turns);
                thread::spawn(move || relay(from, to, is_clients, &turns));
            }
        }
    });
    port
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
            turns.is_taken = bytes[..length].windows(7).any(|part| part == b"EVALSHA");
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
    let turns = Arc::<Mutex<Turns>>::default();
    let port = counting_proxy(place.server.as_ref().unwrap().port(), Arc::clone(&turns));
    place.url = format!("redis://127.0.0.1:{port}/");
    let mut started = Background::fed(place.shell("x", &[], "echo started; cat"));
    assert_eq!(started.line(), "started");
    // HELLO, then INFO with TIME, and the script that takes the lock. Meanwhile the keeper opens
    // its own connections.
    assert_eq!(turns.lock().unwrap().count, 3);
}
