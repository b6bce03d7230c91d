//! The cost for a short job before it begins.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::harness::{Background, Place};

/// Which side sent last on a connection, and how often the client sent after the server.
#[derive(Debug, Default)]
struct Turns {
    is_clients: bool,
    count: u32,
}

/// A proxy of a server that counts round trips, separately for each connection.
#[derive(Debug)]
struct CountingProxy {
    port: u16,
    connections: Arc<Mutex<Vec<Arc<Mutex<Turns>>>>>,
}

impl CountingProxy {
    fn to(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<Mutex<Vec<Arc<Mutex<Turns>>>>>::default();
        let accepted = Arc::clone(&connections);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, turns) = (client.unwrap(), Arc::<Mutex<Turns>>::default());
                let server = TcpStream::connect(("127.0.0.1", server_port)).unwrap();
                accepted.lock().unwrap().push(Arc::clone(&turns));
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let seen = Arc::clone(&turns);
                thread::spawn(move || relay(client, server, true, &seen));
                thread::spawn(move || relay(back, forth, false, &turns));
            }
        });
        Self { port, connections }
    }

    fn round_trips(&self) -> Vec<u32> {
        let connections = self.connections.lock().unwrap();
        connections.iter().map(|turns| turns.lock().unwrap().count).collect()
    }
}

/// How long a reply is on its way: 20 ms.
const LATENCY: Duration = Duration::from_millis(20);

fn relay(mut from: TcpStream, mut to: TcpStream, is_clients: bool, turns: &Mutex<Turns>) {
    let mut bytes = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        // As in a network: requests that were sent without waiting arrive before a reply is back.
        if !is_clients {
            thread::sleep(LATENCY);
        }
        let mut turns = turns.lock().unwrap();
        turns.count += u32::from(is_clients && !turns.is_clients);
        turns.is_clients = is_clients;
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
    // HELLO, then INFO with TIME, and the script that takes the lock. Another connection subscribes
    // to messages, and nothing waits for it: HELLO, SUBSCRIBE.
    let round_trips = proxy.round_trips();
    assert!(matches!(round_trips[..], [3] | [3, ..=2]), "{round_trips:?}");
}
