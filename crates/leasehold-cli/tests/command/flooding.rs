//! A server, or a proxy in front of it, that answers without end costs no memory.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::harness::{Background, Place};

/// The most memory that the program may use: 120 MB. It needs some 20 MB without a flood.
const MOST: u64 = 120_000;

/// The beginning of an answer, and what follows again and again.
type Flood = (&'static [u8], &'static [u8]);

const REDIS: [Flood; 8] = [
    (b"$16000000\r\n", &[b'a'; 65536]),
    (b"*100000\r\n$536870912\r\n", &[b'a'; 65536]),
    (b"*200000\r\n", b"$1000000\r\na"),
    (b"*536870912\r\n", b":1\r\n:1\r\n:1\r\n:1\r\n"),
    (b"", b"*1\r\n*1\r\n*1\r\n*1\r\n"),
    (b"+", &[b'a'; 65536]),
    (b"", b"|1\r\n+a\r\n+b\r\n"),
    (b"", b">2\r\n+message\r\n+b\r\n"),
];

const POSTGRES: [Flood; 2] = [
    (b"D\x7f\xff\xff\xff", &[b'a'; 65536]),
    (b"1\0\0\0\x042\0\0\0\x04T\0\0\0\x06\0\0", b"D\0\0\0\x06\0\0"),
];

/// Serves each connection: answers the first `polite` requests with this answer, and then floods.
fn serve(polite: &'static [u8], requests: usize, (begin, again): Flood) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let flood = move |mut client: TcpStream| -> std::io::Result<()> {
        for _ in 0..requests {
            let _request = client.read(&mut [0; 4096])?;
            client.write_all(polite)?;
        }
        client.write_all(begin)?;
        let again = again.repeat(65536 / again.len() + 1);
        // The thread ends when the program closes the connection.
        loop {
            client.write_all(&again)?;
        }
    };
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            thread::spawn(move || flood(client));
        }
    });
    address.to_string()
}

/// The most memory that a program uses until it ends, in kB, and its exit code.
fn peak(mut running: Background) -> (u64, Option<i32>) {
    let (mut most, path) = (0, format!("/proc/{}/status", running.pid().as_raw_nonzero()));
    loop {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(peak.unwrap_or(0));
        if let Some(ended) = running.child().try_wait().unwrap() {
            return (most, ended.code());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn check(before_address: &str, greeting: &'static [u8], floods: &[Flood]) {
    for (requests, flood) in [0, 1].into_iter().flat_map(|n| floods.iter().map(move |it| (n, *it)))
    {
        let address = serve(greeting, requests, flood);
        let place = Place::at(format!("{before_address}{address}"));
        let running = Background::start(place.leasehold(&["run", "x", "-n", "-q", "--", "true"]));
        let (most, code) = peak(running);
        let what = format!("{} after {requests}", flood.0.escape_ascii());
        assert!(most < MOST, "{what}: {most} kB");
        assert!(matches!(code, Some(2 | 69)), "{what}: {code:?}");
    }
}

#[test]
fn a_redis_server_that_answers_without_end_costs_no_memory() {
    check("redis://", b"%0\r\n", &REDIS);
}

#[test]
fn a_postgresql_server_that_answers_without_end_costs_no_memory() {
    check("postgres://u@", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", &POSTGRES);
}
