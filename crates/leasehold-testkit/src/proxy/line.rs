//! One connection through the proxy. Each of its two directions is a reader that cuts frames and a
//! writer that carries them. So a delayed frame does not delay the frames before it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

use super::trouble::{Fault, Link, Protocol, Shared, Side, Strike, locked};
use crate::resp::{self, Frames};

/// The bytes that replace a garbled reply: no frame, in any version of the protocol.
const GARBAGE: &[u8] = b"\x00\xffHTTP/1.1 400 Bad Request\r\n\r\n";

/// The most bytes that are read in one call if the proxy does not know the protocol.
const BUFFER: usize = 16 * 1024;

/// A piece of a connection that is carried.
#[derive(Debug)]
enum Parcel {
    Bytes {
        bytes: Vec<u8>,
        due: Instant,
    },
    /// Ends the whole connection, after what was sent before it.
    Reset,
    /// Bytes that are sent after this are not carried.
    Silence,
}

type Outgoing = UnboundedSender<Parcel>;

/// The fate of a reply.
#[derive(Debug)]
enum Expectation {
    /// It answers a copy that its client knows nothing of.
    Copy(Strike),
    /// A part of such an answer.
    PartOfCopy,
    Struck(Strike),
    Whole,
}

/// A connection of a client, and its connection to the server.
#[derive(Debug)]
pub(super) struct Line<'a> {
    shared: &'a Shared,
    /// An entry for each request that was sent and has no reply yet.
    expected: Mutex<VecDeque<Expectation>>,
    has_subscribed: AtomicBool,
}

impl<'a> Line<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, expected: Mutex::default(), has_subscribed: AtomicBool::new(false) }
    }

    /// Carries the bytes of both sides until both have ended. Like a network, it also delivers
    /// bytes that were under way when their sender left.
    pub(super) async fn carry(&self, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.shared.server_port())).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let (requests, requests_out) = unbounded_channel();
        let (replies, replies_out) = unbounded_channel();
        let reading = async {
            match self.shared.protocol {
                Protocol::Redis => tokio::try_join!(
                    self.read_requests(from_client, requests),
                    self.read_replies(from_server, replies),
                ),
                Protocol::Unread => tokio::try_join!(
                    self.read_bytes(from_client, requests),
                    self.read_bytes(from_server, replies),
                ),
            }
        };
        tokio::try_join!(
            reading,
            self.write(requests_out, to_server, Side::Server),
            self.write(replies_out, to_client, Side::Client),
        )?;
        Ok(())
    }

    async fn read_bytes(&self, mut from: OwnedReadHalf, out: Outgoing) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        // If a side is gone, the bytes that it has sent are still carried.
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.send(&out, buffer[..length].to_vec());
        }
        Ok(())
    }

    async fn read_requests(&self, from: OwnedReadHalf, out: Outgoing) -> io::Result<()> {
        let mut frames = Frames::new(from);
        // If the client is gone, the requests that it has sent are still carried.
        while let Ok(Some(first)) = frames.next().await {
            let Ok(parts) = resp::request(first, &mut frames).await else { return Ok(()) };
            let (strike, request) = (self.shared.strike_for(&parts), parts.concat());
            let Some(strike) = strike else {
                for part in &parts {
                    match resp::has_reply(part) {
                        true => self.expect(Expectation::Whole),
                        false => self.has_subscribed.store(true, Ordering::Relaxed),
                    }
                }
                self.send(&out, request);
                continue;
            };
            // The last reply is that of the whole transaction.
            let others = parts.len() - 1;
            if strike.fault != Fault::HoldRequest {
                (0..others).for_each(|_| self.expect(Expectation::Whole));
            }
            match strike.fault {
                Fault::BreakReply(_)
                | Fault::GarbleReply
                | Fault::LoseReply
                | Fault::RepeatReply => self.expect(Expectation::Struck(strike)),
                Fault::HoldRequest => {
                    locked(&self.shared.held).push(request);
                    strike.tell();
                    // Later requests of the client are read and dropped.
                    while let Ok(Some(_)) = frames.next().await {}
                    return Ok(());
                }
                Fault::RepeatRequest => {
                    self.expect(Expectation::Whole);
                    (0..others).for_each(|_| self.expect(Expectation::PartOfCopy));
                    self.expect(Expectation::Copy(strike));
                    self.send(&out, request.clone());
                }
            }
            self.send(&out, request);
        }
        Ok(())
    }

    async fn read_replies(&self, from: OwnedReadHalf, out: Outgoing) -> io::Result<()> {
        let mut frames = Frames::new(from);
        let mut link = self.shared.link.subscribe();
        loop {
            let holds =
                |link: &Link| link.holds_messages && self.has_subscribed.load(Ordering::Relaxed);
            if link.wait_for(|link| !holds(link)).await.is_err() {
                return Ok(());
            }
            let Ok(Some(frame)) = frames.next().await else { return Ok(()) };
            if resp::is_push(&frame) {
                if !(resp::is_message(&frame) && self.shared.link().loses_messages) {
                    self.send(&out, frame);
                }
                continue;
            }
            // A refused SUBSCRIBE is a reply that was not expected.
            let expected = locked(&self.expected).pop_front().unwrap_or(Expectation::Whole);
            match expected {
                Expectation::Copy(strike) => strike.tell(),
                Expectation::PartOfCopy => {}
                Expectation::Struck(strike) => self.spoil(&out, frame, strike),
                Expectation::Whole => self.send(&out, frame),
            }
        }
    }

    /// Applies the fault of a call to its reply.
    fn spoil(&self, out: &Outgoing, reply: Vec<u8>, strike: Strike) {
        match strike.fault {
            Fault::BreakReply(length) => {
                self.send(out, reply.into_iter().take(length).collect());
                end(out, Parcel::Reset);
            }
            Fault::GarbleReply => self.send(out, GARBAGE.to_vec()),
            Fault::LoseReply => end(out, Parcel::Silence),
            Fault::RepeatReply => {
                self.send(out, reply.clone());
                self.send(out, reply);
            }
            Fault::HoldRequest | Fault::RepeatRequest => self.send(out, reply),
        }
        strike.tell();
    }

    fn expect(&self, expectation: Expectation) {
        locked(&self.expected).push_back(expectation);
    }

    fn send(&self, out: &Outgoing, bytes: Vec<u8>) {
        let due = Instant::now() + self.shared.link().delay;
        // If the other end is gone, the bytes are lost, as in any network.
        let _ = out.send(Parcel::Bytes { bytes, due });
    }

    /// The next parcel; until it comes, a client that has subscribed is flooded.
    async fn next(
        &self,
        parcels: &mut UnboundedReceiver<Parcel>,
        to: &mut OwnedWriteHalf,
        side: Side,
    ) -> io::Result<Option<Parcel>> {
        let mut flood = self.shared.flood.subscribe();
        loop {
            let is_flooded = |message: &Vec<u8>| {
                let hears = side == Side::Client && self.has_subscribed.load(Ordering::Relaxed);
                hears && !message.is_empty()
            };
            let messages = tokio::select! {
                biased;
                parcel = parcels.recv() => return Ok(parcel),
                Ok(messages) = flood.wait_for(is_flooded) => messages.clone(),
            };
            to.write_all(&messages).await?;
            self.shared.flooded.fetch_add(messages.len() as u64, Ordering::Relaxed);
        }
    }

    /// Writes the parcels that are due and not held back. An error ends the whole connection.
    async fn write(
        &self,
        mut parcels: UnboundedReceiver<Parcel>,
        mut to: OwnedWriteHalf,
        side: Side,
    ) -> io::Result<()> {
        let mut link = self.shared.link.subscribe();
        let mut is_silent = false;
        while let Some(parcel) = self.next(&mut parcels, &mut to, side).await? {
            let (bytes, due) = match parcel {
                Parcel::Bytes { .. } if is_silent => continue,
                Parcel::Bytes { bytes, due } => (bytes, due),
                Parcel::Reset => {
                    // Without lingering, closing is a reset.
                    to.as_ref().set_zero_linger()?;
                    return Err(ErrorKind::ConnectionReset.into());
                }
                Parcel::Silence => {
                    is_silent = true;
                    continue;
                }
            };
            sleep_until(due).await;
            let drip = match link.wait_for(|link| !link.is_held_back(side)).await {
                Ok(link) if side == Side::Client => link.drip,
                Ok(_) => Duration::ZERO,
                Err(_) => return Ok(()),
            };
            if write_slowly(&mut to, &bytes, drip).await.is_err() {
                return Ok(());
            }
        }
        // The other end may be gone already.
        let _ = to.shutdown().await;
        Ok(())
    }
}

/// Sends the last parcel.
fn end(out: &Outgoing, parcel: Parcel) {
    // If the other end is gone, the connection has ended anyway.
    let _ = out.send(parcel);
}

/// Writes all bytes together, or one by one with a pause after each.
async fn write_slowly(to: &mut OwnedWriteHalf, bytes: &[u8], pause: Duration) -> io::Result<()> {
    if pause.is_zero() {
        return to.write_all(bytes).await;
    }
    for byte in bytes {
        to.write_u8(*byte).await?;
        sleep(pause).await;
    }
    Ok(())
}
