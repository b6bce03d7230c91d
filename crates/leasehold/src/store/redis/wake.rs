//! Inboxes of clients and news of names: each is a connection of its own that is subscribed to the
//! channel of the one or the other.
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
use super::route::Route;
use super::url::Address;
use super::{Notes, reply};
use crate::store::{Inbox, News};

/// How often a quiet subscription is asked whether it still lives: 5 s. Waiters ask the store
/// themselves once a second, so this only bounds how long they depend on that.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The first and the longest pause between two attempts to subscribe again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Subscribes; once this has returned, the server knows of it.
///
/// A user without the right to subscribe gets one that stays silent, and a note: waiters then find
/// out by asking.
pub(super) async fn open(
    route: Arc<Route>,
    notes: Arc<Notes>,
    channel: Vec<u8>,
) -> Result<Channel, StoreError> {
    let mut channel = Channel::new(route, notes, channel, None);
    channel.open().await?;
    Ok(channel)
}

/// Where messages arrive.
pub(super) struct Channel {
    route: Arc<Route>,
    notes: Arc<Notes>,
    channel: Vec<u8>,
    /// The one server at which to listen; any will do without.
    post: Option<Address>,
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

impl Channel {
    /// One that is not subscribed yet, and says so by a gap once it is.
    pub(super) fn new(
        route: Arc<Route>,
        notes: Arc<Notes>,
        channel: Vec<u8>,
        post: Option<Address>,
    ) -> Self {
        let jitter = Jitter::new(seed(&channel));
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let opening = Line::open(Arc::clone(&route), channel.clone(), post.clone());
        let state = State::Mending(Box::pin(opening));
        Self { route, notes, channel, post, jitter, backoff, state }
    }

    /// Subscribes now; nothing was missed before that.
    pub(super) async fn open(&mut self) -> Result<(), StoreError> {
        let State::Mending(opening) = &mut self.state else { return Ok(()) };
        match State::from(opening.await, &self.notes) {
            Ok(state) => self.state = state,
            Err(error) => {
                self.state = self.mend();
                return Err(error);
            }
        }
        Ok(())
    }

    /// The server at which it listens, if it must be that one.
    pub(super) fn post(&self) -> Option<&Address> {
        self.post.as_ref()
    }

    /// Whether nothing will ever arrive.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.state, State::Silent)
    }

    fn mend(&mut self) -> State {
        let (route, channel) = (Arc::clone(&self.route), self.channel.clone());
        let post = self.post.clone();
        let pause = self.backoff.next_delay(&mut self.jitter);
        State::Mending(Box::pin(async move {
            tokio::time::sleep(pause).await;
            Line::open(route, channel, post).await
        }))
    }

    /// The next payload, or `None` if some may have been lost.
    pub(super) async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            match &mut self.state {
                State::Listening(line) => match line.next().await {
                    Some(payload) => return Some(payload),
                    None => self.state = self.mend(),
                },
                State::Mending(mending) => {
                    let outcome = mending.await;
                    match State::from(outcome, &self.notes) {
                        // Whatever was published since the last message is lost.
                        Ok(state) => {
                            self.state = state;
                            self.backoff.reset();
                            return None;
                        }
                        Err(_) => self.state = self.mend(),
                    }
                }
                State::Silent => pending::<()>().await,
            }
        }
    }
}

impl Inbox for Channel {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let Some(payload) = self.receive().await else { return Message::Gap };
                // Anything else was sent by somebody who has no business on this channel.
                if let Some(message) = reply::message(&payload) {
                    return message;
                }
            }
        })
    }
}

impl News for Channel {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { self.receive().await.and_then(|payload| String::from_utf8(payload).ok()) })
    }
}

/// One subscribed connection.
struct Line {
    route: Arc<Route>,
    link: Arc<Link>,
    pushes: UnboundedReceiver<PushInfo>,
    /// When to ask whether it still lives, if nothing arrives until then.
    ping_at: Instant,
    /// The question under way. Messages wait for its answer: a round trip at most, or the end.
    ping: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

impl Line {
    async fn open(
        route: Arc<Route>,
        channel: Vec<u8>,
        post: Option<Address>,
    ) -> Result<Self, StoreError> {
        let (sender, pushes) = unbounded_channel();
        let link = Arc::new(route.listen(post.as_ref(), sender).await?);
        link.ask(redis::cmd("SUBSCRIBE").arg(channel)).await?;
        Ok(Self { route, link, pushes, ping_at: Instant::now() + PING_EVERY, ping: None })
    }

    /// The next payload, or `None` once the connection is lost.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(ping) = &mut self.ping {
                let answer = ping.await;
                self.ping = None;
                answer.ok()?;
                self.ping_at = Instant::now() + PING_EVERY;
            }
            let Ok(push) = timeout_at(self.ping_at, self.pushes.recv()).await else {
                let (route, link) = (Arc::clone(&self.route), Arc::clone(&self.link));
                self.ping = Some(Box::pin(async move { route.probe(&link).await }));
                continue;
            };
            let PushInfo { kind, mut data } = push?;
            self.ping_at = Instant::now() + PING_EVERY;
            match kind {
                PushKind::Disconnection => return None,
                // Channel, payload.
                PushKind::Message => {
                    if let Some(Value::BulkString(payload)) = data.pop() {
                        return Some(payload);
                    }
                }
                // The confirmation of the subscription, and what later servers may add.
                _ => {}
            }
        }
    }
}

/// A number of this client's own, so that many clients do not return all at once.
fn seed(channel: &[u8]) -> u64 {
    channel.iter().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}
