//! Notifications: they arrive on a session that the clients of a store share, and are sent in
//! separate transactions.

mod hub;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Addressed, BoxFuture, ClientId, InvalidInput, LockName, Message, StoreError};
use sha1_smol::Sha1;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use self::hub::Hub;
use super::connection::Sessions;
use crate::store::message::{decode, encode};
use crate::store::{Inbox, Subscribed, Subscription};

/// How long a waiter's first request waits for the session: 1 s. A waiter repeats its request after
/// that time in any case.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends a notification for each element of two arrays.
const NOTIFY: &str = "SELECT pg_notify(channel, payload) \
    FROM unnest($1::text[], $2::text[]) AS told(channel, payload)";

/// The inboxes and subscriptions of one store.
pub(crate) struct Inboxes {
    sessions: Arc<Sessions>,
    hub: Arc<Hub>,
}

impl Inboxes {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Result<Self, InvalidInput> {
        Ok(Self { hub: Hub::new(&sessions.settings)?, sessions })
    }

    /// Opens the inbox of a client. The session listens to it from the first wait on.
    pub(crate) fn open(&self, client: ClientId) -> Box<dyn Inbox> {
        Box::new(PostgresInbox(self.hub.receive(inbox(client), false)))
    }

    /// Whether a waiter of this client would be notified of its turn. True as well behind a pooler,
    /// and without an inbox: then there is nothing to wait for.
    pub(crate) fn hears(&self, client: ClientId) -> bool {
        !self.hub.is_deaf(&inbox(client))
    }

    /// Listens from now on, for as long as somebody waits. Until that works, waiters find out by
    /// asking.
    pub(crate) async fn hear(&self, client: ClientId) {
        self.hub.note_waiting();
        if !self.hears(client) {
            // The waiter asks again after a second anyway.
            let _ = timeout(PATIENCE, self.hub.listen(&inbox(client))).await;
        }
    }

    /// Follows the messages about a name; `None` if messages cannot arrive.
    pub(crate) async fn subscribe(&self, name: &LockName) -> Subscribed {
        let channel = news(&self.sessions.settings.schema, name);
        let receiver = self.hub.receive(channel.clone(), true);
        let subscription = PostgresSubscription { receiver, name: name.clone() };
        let is_heard = self.hub.listen(&channel).await?;
        Ok(is_heard.then(|| Box::new(subscription) as Box<dyn Subscription>))
    }

    /// Sends clients the messages of a step that is committed: in a separate transaction, because
    /// notifications make commits wait for each other. The messages are hints: if one cannot be
    /// sent, its receiver finds out by asking.
    pub(crate) async fn tell(&self, messages: &[Addressed]) {
        let told = messages.iter().filter_map(|(client, message)| {
            Some((inbox(*client), encode(message)?)) //
        });
        let (channels, payloads): (Vec<_>, Vec<_>) = told.unzip();
        if !channels.is_empty() {
            let _ = self.notify(&channels, &payloads).await;
        }
    }

    /// Publishes a message to all followers of a name.
    pub(crate) async fn publish(&self, name: &LockName, message: &str) -> Result<(), StoreError> {
        // The name has no line breaks. A name and a value that leasehold allows are shorter than
        // the longest payload, which has 7,999 bytes (NOTIFY_PAYLOAD_MAX_LENGTH in async.c).
        let payload = format!("{}\n{message}", name.as_str());
        self.notify(&[news(&self.sessions.settings.schema, name)], &[payload]).await
    }

    async fn notify(&self, channels: &[String], payloads: &[String]) -> Result<(), StoreError> {
        let values = values![TEXT_ARRAY channels, TEXT_ARRAY payloads];
        self.sessions.query(NOTIFY, &values).await.map(drop)
    }
}

/// The next payload; `None` if some may have been missed.
async fn next(receiver: &mut Receiver<Option<String>>) -> Option<String> {
    match receiver.recv().await {
        Ok(heard) => heard,
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => std::future::pending().await, // the store has gone
    }
}

struct PostgresInbox(Receiver<Option<String>>);

impl Inbox for PostgresInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let Some(payload) = next(&mut self.0).await else { return Message::Gap };
                // Otherwise the message is of a later release.
                if let Some(message) = decode(&payload) {
                    return message;
                }
            }
        })
    }
}

struct PostgresSubscription {
    receiver: Receiver<Option<String>>,
    name: LockName,
}

impl Subscription for PostgresSubscription {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            loop {
                let payload = next(&mut self.receiver).await?;
                // Other names may share the channel.
                if let Some((told, text)) = payload.split_once('\n')
                    && told == self.name.as_str()
                {
                    return Some(text.to_owned());
                }
            }
        })
    }
}

/// The channel of a client.
fn inbox(client: ClientId) -> String {
    format!("lh_{client}")
}

/// The channel for messages about a name. Names may be longer than channels, so several names may
/// share a channel; the payload has the name.
fn news(schema: &str, name: &LockName) -> String {
    let hash = Sha1::from(format!("{schema}\n{}", name.as_str())).digest();
    format!("lh_n_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::PostgresOptions;

    #[tokio::test]
    async fn who_reads_too_slowly_is_told_that_notifications_were_missed() {
        let hub = Hub::new(&PostgresOptions::from_url("postgres://u@localhost").unwrap()).unwrap();
        let mut receiver = hub.receive("c".to_owned(), true);
        (0..300).for_each(|number| hub.pass_on(Some(("c", &number.to_string()))));
        assert_eq!(next(&mut receiver).await, None);
        assert_eq!(next(&mut receiver).await.as_deref(), Some("44"));
    }

    #[test]
    fn channels_are_no_longer_than_a_server_keeps() {
        let client = ClientId(u128::MAX);
        assert_eq!(inbox(client).len(), 35);
        let name = LockName::new("x".repeat(512)).unwrap();
        assert!(news("leasehold", &name).len() < 64);
        assert_ne!(news("leasehold", &name), news("other", &name));
    }
}
