//! The inbox of a client: a connection of its own that is subscribed to the client's channel.
//!
//! It is kept apart from the connections that carry requests: a subscribed connection counts as
//! one for messages, and such are ended by the server when they read too slowly, by a failover, and
//! by an operator's `CLIENT KILL TYPE pubsub`. No renewal must suffer from that.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{BoxFuture, Message, StoreError, StoreErrorKind};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use super::connection::Link;
use super::dial::Dialer;
use super::{Notes, reply};
use crate::store::Inbox;

/// How often a quiet subscription is asked whether it still lives: 5 s. Waiters ask the store
/// themselves once a second, so this only bounds how long they depend on that.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The first and the longest pause between two attempts to subscribe again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Subscribes; once this has returned, the server knows of it.
///
/// A user without the right to subscribe gets an inbox that stays silent, and a note: waiters then
/// find out by asking.
pub(super) async fn open(
    dialer: Arc<Dialer>,
    notes: Arc<Notes>,
    channel: Vec<u8>,
) -> Result<RedisInbox, StoreError> {
    let jitter = Jitter::new(seed(&channel));
    let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let state = State::from(Line::open(Arc::clone(&dialer), channel.clone()).await, &notes)?;
    Ok(RedisInbox { dialer, notes, channel, jitter, backoff, state })
}

/// Where a client's messages arrive.
pub(super) struct RedisInbox {
    dialer: Arc<Dialer>,
    notes: Arc<Notes>,
    channel: Vec<u8>,
    jitter: Jitter,
    backoff: Backoff,
    state: State,
}

enum State {
    /// Subscribed.
    Listening(Line),
    /// Not subscribed, on the way to be so again. The future is kept, so that nothing is lost
    /// when whoever asks for the next message stops waiting for it.
    Mending(BoxFuture<'static, Result<Line, StoreError>>),
    /// Not allowed to subscribe.
    Silent,
}

impl State {
    fn from(outcome: Result<Line, StoreError>, notes: &Notes) -> Result<Self, StoreError> {
        match outcome {
            Ok(line) => Ok(Self::Listening(line)),
            Err(error) if error.kind() == StoreErrorKind::Denied => {
                notes.add(format!(
                    "{error} (without messages, waiters are not woken: they ask once a second)"
                ));
                Ok(Self::Silent)
            }
            Err(error) => Err(error),
        }
    }
}

impl RedisInbox {
    fn mend(&mut self) -> State {
        let (dialer, channel) = (Arc::clone(&self.dialer), self.channel.clone());
        let pause = self.backoff.next_delay(&mut self.jitter);
        State::Mending(Box::pin(async move {
            tokio::time::sleep(pause).await;
            Line::open(dialer, channel).await
        }))
    }

    async fn receive(&mut self) -> Message {
        loop {
            match &mut self.state {
                State::Listening(line) => match line.next().await {
                    Some(message) => return message,
                    None => self.state = self.mend(),
                },
                State::Mending(mending) => {
                    let outcome = mending.await;
                    match State::from(outcome, &self.notes) {
                        // Whatever was published since the last message is lost.
                        Ok(state) => {
                            self.state = state;
                            self.backoff.reset();
                            return Message::Gap;
                        }
                        Err(_) => self.state = self.mend(),
                    }
                }
                State::Silent => pending::<()>().await,
            }
        }
    }
}

impl Inbox for RedisInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(self.receive())
    }
}

/// One subscribed connection.
struct Line {
    link: Arc<Link>,
    pushes: UnboundedReceiver<PushInfo>,
    /// When to ask whether it still lives, if nothing arrives until then.
    ping_at: Instant,
    /// The question under way. Messages wait for its answer: a round trip at most, or the end.
    ping: Option<BoxFuture<'static, Result<Value, StoreError>>>,
}

impl Line {
    async fn open(dialer: Arc<Dialer>, channel: Vec<u8>) -> Result<Self, StoreError> {
        let (sender, pushes) = unbounded_channel();
        let link = Arc::new(dialer.dial(Some(sender)).await?);
        link.ask(redis::cmd("SUBSCRIBE").arg(channel)).await?;
        Ok(Self { link, pushes, ping_at: Instant::now() + PING_EVERY, ping: None })
    }

    /// The next message, or `None` once the connection is lost.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(ping) = &mut self.ping {
                let answer = ping.await;
                self.ping = None;
                answer.ok()?;
                self.ping_at = Instant::now() + PING_EVERY;
            }
            let Ok(push) = timeout_at(self.ping_at, self.pushes.recv()).await else {
                let link = Arc::clone(&self.link);
                self.ping = Some(Box::pin(async move { link.ask(&redis::cmd("PING")).await }));
                continue;
            };
            let PushInfo { kind, data } = push?;
            self.ping_at = Instant::now() + PING_EVERY;
            match kind {
                PushKind::Disconnection => return None,
                PushKind::Message => {
                    if let Some(message) = read(&data) {
                        return Some(message);
                    }
                }
                // The confirmation of the subscription, and what later servers may add.
                _ => {}
            }
        }
    }
}

/// The message in the payload of a push: channel, payload. Anything else was sent by somebody who
/// has no business on this channel.
fn read(data: &[Value]) -> Option<Message> {
    match data {
        [_channel, Value::BulkString(payload)] => reply::message(payload),
        _ => None,
    }
}

/// A number of this client's own, so that many clients do not return all at once.
fn seed(channel: &[u8]) -> u64 {
    channel.iter().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}
