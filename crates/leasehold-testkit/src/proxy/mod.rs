//! A network between clients and a server that does what networks do: it delays, it is cut, it
//! goes silent in one direction, and it loses, garbles or repeats a request or a reply.

mod line;
mod trouble;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::store::redis_wire::Script;
use redis::{Value, parse_redis_value};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

use self::line::Line;
pub use self::trouble::Fault;
use self::trouble::{Protocol, Shared, Strike, locked};
use crate::resp;

/// The most bytes that [`Proxy::deliver`] reads from the server in one call.
const BUFFER: usize = 4 * 1024;

/// Messages in one write of [`Proxy::flood`]: 64, so that the proxy is faster than a client.
const MESSAGES_AT_ONCE: usize = 64;

/// A port that leads to a server without TLS. It runs on its own thread and ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

/// Tells when a [`Fault`] has happened.
#[derive(Debug)]
pub struct Struck(oneshot::Receiver<()>);

impl Proxy {
    /// Starts a proxy for a Redis server on a port of 127.0.0.1.
    pub fn start(server_port: u16) -> io::Result<Self> {
        Self::start_for(Protocol::Redis, server_port)
    }

    /// Starts a proxy for any server on a port of 127.0.0.1. It carries bytes without reading them,
    /// so no call can be struck, and no message lost.
    pub fn start_unread(server_port: u16) -> io::Result<Self> {
        Self::start_for(Protocol::Unread, server_port)
    }

    fn start_for(protocol: Protocol, server_port: u16) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            protocol,
            server_port: AtomicU16::new(server_port),
            link: watch::Sender::default(),
            cuts: watch::Sender::default(),
            flood: watch::Sender::default(),
            flooded: AtomicU64::new(0),
            strikes: Mutex::default(),
            held: Mutex::default(),
        });
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, runtime: Some(runtime) })
    }

    /// The proxy's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The store URL of the proxy's port.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Leads to another server from now on: cuts all connections, and new ones lead there.
    pub fn lead_to(&self, server_port: u16) {
        self.lead_next_to(server_port);
        self.cut();
    }

    /// Has new connections lead to another server.
    pub fn lead_next_to(&self, server_port: u16) {
        self.shared.server_port.store(server_port, Ordering::Relaxed);
    }

    /// Cuts all connections; new ones can be made.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Holds back all bytes of the server, or stops doing so. When it stops, the bytes that were
    /// held back arrive, as after any outage of a network, unless their connection was cut
    /// meanwhile.
    pub fn mute(&self, mute: bool) {
        self.shared.link.send_modify(|link| link.is_mute = mute);
    }

    /// Holds back all bytes of clients, or stops doing so, as [`Proxy::mute`] does.
    pub fn deafen(&self, deaf: bool) {
        self.shared.link.send_modify(|link| link.is_deaf = deaf);
    }

    /// Holds back everything, or stops doing so. A new connection is accepted, but carries nothing.
    pub fn swallow(&self, swallow: bool) {
        self.mute(swallow);
        self.deafen(swallow);
    }

    /// Lets everything arrive later by this delay from now on; a round trip takes two delays more.
    pub fn delay(&self, delay: Duration) {
        self.shared.link.send_modify(|link| link.delay = delay);
    }

    /// Lets the server's bytes arrive one by one, with this pause after each. With a pause of zero,
    /// they arrive together again.
    pub fn drip(&self, pause: Duration) {
        self.shared.link.send_modify(|link| link.drip = pause);
    }

    /// Holds back all bytes of the server on connections that have subscribed, or stops doing so.
    /// The bytes are not even read from the server, so its buffers fill.
    pub fn hold_messages(&self, hold: bool) {
        self.shared.link.send_modify(|link| link.holds_messages = hold);
    }

    /// Loses all published messages, or stops doing so.
    pub fn lose_messages(&self, lose: bool) {
        self.shared.link.send_modify(|link| link.loses_messages = lose);
    }

    /// Publishes this message again and again from now on, in addition to the server's messages.
    /// Every connection that has subscribed gets it, as fast as its client reads.
    pub fn flood(&self, payload: &str) {
        let length = payload.len();
        let message = format!(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${length}\r\n{payload}\r\n");
        self.shared.flood.send_replace(message.repeat(MESSAGES_AT_ONCE).into_bytes());
    }

    /// How many bytes of the flood were taken by clients.
    pub fn flooded(&self) -> u64 {
        self.shared.flooded.load(Ordering::Relaxed)
    }

    /// Lets a fault hit the `nth` call of a script from now on: 1 is the next call.
    pub fn strike(&self, nth: u32, script: Script, fault: Fault) -> Struck {
        let (told, hears) = oneshot::channel();
        locked(&self.shared.strikes).push(Strike { script, calls_left: nth, fault, told });
        Struck(hears)
    }

    /// Cancels all faults that have not happened yet.
    pub fn spare(&self) {
        locked(&self.shared.strikes).clear();
    }

    /// Delivers the requests that are kept, each on a new connection, and returns the server's
    /// replies.
    pub fn deliver(&self) -> io::Result<Vec<Value>> {
        let held = std::mem::take(&mut *locked(&self.shared.held));
        held.iter().map(|request| ask(self.shared.server_port(), request)).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Struck {
    /// Waits until the fault has happened.
    ///
    /// # Panics
    ///
    /// If the connection ended before.
    pub async fn happened(self) {
        assert!(self.0.await.is_ok(), "the connection of the struck call ended before its reply");
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        let mut cut = shared.cuts.subscribe();
        tokio::spawn(async move {
            let line = Line::new(&shared);
            tokio::select! {
                // This comes first: after a cut, bytes that are no longer held back are lost.
                biased;
                _ = cut.changed() => {}
                _ = line.carry(client) => {}
            }
        });
    }
}

/// Sends one request by a new connection.
fn ask(server_port: u16, request: &[u8]) -> io::Result<Value> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port))?;
    server.write_all(request)?;
    let mut reply = Vec::new();
    while resp::length(&reply)?.is_none() {
        let mut buffer = [0; BUFFER];
        match server.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => reply.extend_from_slice(&buffer[..length]),
        }
    }
    parse_redis_value(&reply).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
