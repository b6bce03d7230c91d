//! Notifications arrive on one session of the store, which is open only while somebody waits or
//! follows a name.
//!
//! Each notification wakes every listening session of the database, so a session that is always
//! open would slow all clients down. Four notifiers sent 11,458 notifications a second without
//! listeners, and 277 with 256 listeners.

mod message;
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Addressed, BoxFuture, ClientId, LockName, Message, StoreError, StoreErrorKind,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, timeout};
use tokio_postgres::types::Type;

use self::session::Listening;
use super::connection::dial::Dialer;
use super::connection::{Sessions, on_keeper};
use super::options::PostgresOptions;
use crate::mutex::Mutex;
use crate::store::warnings::Warnings;
use crate::store::{Inbox, Subscription};

/// How long the session stays open after the last waiter: 10 s.
const LINGER: Duration = Duration::from_secs(10);

/// How long a waiter's first request waits for the session: 1 s. A waiter repeats its request after
/// that time in any case.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest payload of a notification, in bytes. (NOTIFY_PAYLOAD_MAX_LENGTH in async.c)
const MAX_PAYLOAD_BYTES: usize = 7_999;

/// Sends a notification for each element of two arrays.
const NOTIFY: &str = "SELECT pg_notify(channel, payload) \
    FROM unnest($1::text[], $2::text[]) AS told(channel, payload)";

/// The inboxes and subscriptions of one store.
pub(crate) struct Inboxes {
    sessions: Sessions,
    dialer: Dialer,
    schema: String,
    warnings: Arc<Warnings>,
    receivers: Mutex<Receivers>,
    listening: Listening,
}

/// The receivers of messages, by client.
#[derive(Default)]
struct Receivers {
    inboxes: BTreeMap<ClientId, UnboundedSender<Message>>,
    news: Vec<(String, LockName, UnboundedSender<Option<String>>)>,
    /// The last time at which somebody waited.
    waited: Option<Instant>,
}

impl fmt::Debug for Inboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inboxes").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Receivers {
    /// Forgets receivers that have gone.
    fn retain_living(&mut self) {
        self.inboxes.retain(|_, inbox| !inbox.is_closed());
        self.news.retain(|(_, _, news)| !news.is_closed());
    }

    fn channels(&self) -> Vec<String> {
        let inboxes = self.inboxes.keys().map(|client| message::inbox(*client));
        let news = self.news.iter().map(|(channel, ..)| channel.clone());
        let mut channels: Vec<_> = inboxes.chain(news).collect();
        channels.sort_unstable();
        channels.dedup();
        channels
    }
}

impl Inboxes {
    pub(crate) fn new(
        settings: &PostgresOptions,
        sessions: Sessions,
        warnings: Arc<Warnings>,
    ) -> Result<Arc<Self>, leasehold_core::InvalidInput> {
        let servers = match &settings.listen {
            Some(server) => vec![server.clone()],
            None => settings.servers.clone(),
        };
        Ok(Arc::new(Self {
            sessions,
            dialer: Dialer::new(settings, &servers)?,
            schema: settings.schema.clone(),
            warnings,
            receivers: Mutex::default(),
            listening: Listening::default(),
        }))
    }

    // ---- receiving

    /// Opens the inbox of a client. The session listens to it from the first wait on.
    pub(crate) fn open(&self, client: ClientId) -> Box<dyn Inbox> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.receivers.lock().inboxes.insert(client, sender);
        Box::new(PostgresInbox(receiver))
    }

    /// Whether a waiter of this client would be notified of its turn. True as well behind a pooler,
    /// and without an inbox: then there is nothing to wait for.
    pub(crate) fn hears(&self, client: ClientId) -> bool {
        let has_inbox = self.receivers.lock().inboxes.contains_key(&client);
        !has_inbox || self.listening.has(&message::inbox(client)) || self.listening.is_silent()
    }

    /// Listens from now on, for as long as somebody waits, and replaces a session that fails. Until
    /// a new one listens, waiters find out by asking.
    pub(crate) async fn hear(self: &Arc<Self>, client: ClientId) {
        if !self.hears(client) {
            // The waiter asks again after a second anyway.
            let _ = timeout(PATIENCE, self.listen()).await;
        }
    }

    /// Records that somebody waits now.
    pub(crate) fn note_waiting(&self) {
        self.receivers.lock().waited = Some(Instant::now());
    }

    /// Follows the messages about a name; `None` if messages cannot arrive.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        name: &LockName,
    ) -> Result<Option<Box<dyn Subscription>>, StoreError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let channel = message::news(&self.schema, name);
        self.receivers.lock().news.push((channel, name.clone(), sender));
        self.listen().await?;
        let is_silent = self.listening.is_silent();
        Ok((!is_silent).then(|| Box::new(PostgresSubscription(receiver)) as Box<dyn Subscription>))
    }

    async fn listen(self: &Arc<Self>) -> Result<(), StoreError> {
        on_keeper(session::listen(Arc::clone(self))).await
    }

    /// Whether anybody still needs the session.
    fn is_wanted(&self) -> bool {
        let mut receivers = self.receivers.lock();
        receivers.retain_living();
        let waits = receivers.waited.is_some_and(|waited| waited.elapsed() < LINGER);
        waits && !receivers.inboxes.is_empty() || !receivers.news.is_empty()
    }

    fn channels(&self) -> Vec<String> {
        let mut receivers = self.receivers.lock();
        receivers.retain_living();
        receivers.channels()
    }

    /// Passes on a notification that has arrived.
    fn receive(&self, channel: &str, payload: &str) {
        let receivers = self.receivers.lock();
        for (client, inbox) in &receivers.inboxes {
            if message::inbox(*client) == channel
                && let Some(message) = crate::store::message::decode(payload)
            {
                // The send fails if the client has gone; it is forgotten later.
                let _ = inbox.send(message);
            }
        }
        for (of, name, news) in &receivers.news {
            if of == channel
                && let Some((told, text)) = payload.split_once('\n')
                && told == name.as_str()
            {
                let _ = news.send(Some(text.to_owned()));
            }
        }
    }

    /// Tells all receivers that they may have missed messages.
    fn tell_gap(&self) {
        let receivers = self.receivers.lock();
        receivers.inboxes.values().for_each(|inbox| {
            let _ = inbox.send(Message::Gap);
        });
        receivers.news.iter().for_each(|(_, _, news)| {
            let _ = news.send(None);
        });
    }

    // ---- sending

    /// Sends clients the messages of a step that is committed: in a separate transaction, because
    /// notifications make commits wait for each other. The messages are hints: if one cannot be
    /// sent, its receiver finds out by asking.
    pub(crate) async fn tell(&self, messages: &[Addressed]) {
        let told = messages.iter().filter_map(|(client, message)| {
            Some((message::inbox(*client), crate::store::message::encode(message)?))
        });
        let (channels, payloads): (Vec<_>, Vec<_>) = told.unzip();
        if !channels.is_empty() {
            let _ = self.notify(&channels, &payloads).await;
        }
    }

    /// Publishes a message to all followers of a name.
    pub(crate) async fn publish(&self, name: &LockName, message: &str) -> Result<(), StoreError> {
        let payload = message::publication(name, message);
        if payload.len() > MAX_PAYLOAD_BYTES {
            let text = format!(
                "a message of {} bytes under a name of {}: together PostgreSQL carries \
                 {MAX_PAYLOAD_BYTES}",
                message.len(),
                name.as_str().len()
            );
            return Err(StoreError::new(StoreErrorKind::Unsupported, text));
        }
        self.notify(&[message::news(&self.schema, name)], &[payload]).await
    }

    async fn notify(&self, channels: &[String], payloads: &[String]) -> Result<(), StoreError> {
        let values = [(&channels as _, Type::TEXT_ARRAY), (&payloads as _, Type::TEXT_ARRAY)];
        self.sessions.query(NOTIFY, &values).await.map(drop)
    }
}

struct PostgresInbox(UnboundedReceiver<Message>);

impl Inbox for PostgresInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            match self.0.recv().await {
                Some(message) => message,
                // Another inbox was opened for the same client, so this one is silent from now on.
                None => std::future::pending().await,
            }
        })
    }
}

struct PostgresSubscription(UnboundedReceiver<Option<String>>);

impl Subscription for PostgresSubscription {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            match self.0.recv().await {
                Some(message) => message,
                None => std::future::pending().await, // the store has gone
            }
        })
    }
}
