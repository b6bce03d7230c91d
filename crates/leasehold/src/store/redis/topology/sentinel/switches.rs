//! A hint that another server has become the primary: the message of a sentinel at that moment.
//!
//! After a failover on an operator's request, the old primary accepts writes for some seconds,
//! until the sentinels make it a replica. It then forgets these writes. Nothing depends on the
//! hint: a client that misses it leaves the old primary once that server refuses a write or closes
//! the connection. So a sentinel is not asked which server it knows: it may have missed a failover.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select;
use leasehold_core::{StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::background;
use crate::mutex::Mutex;
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::pushes::{Pushes, pushes};
use crate::store::redis::options::Address;
use crate::time::SystemClock;

/// The channel of these messages: `SERVICE OLD-IP OLD-PORT NEW-IP NEW-PORT`.
const CHANNEL: &str = "+switch-master";

/// The pause before the client listens to another sentinel: 1 s. The messages are only hints.
const PAUSE: Duration = Duration::from_secs(1);

/// The connections to a primary, which are closed when a sentinel says that another server is the
/// primary.
#[derive(Debug)]
pub(crate) struct SwitchListener {
    pub(super) service: String,
    pub(super) sentinels: Vec<Address>,
    pub(super) to_sentinels: Dialer,
    pool: Mutex<Vec<(Address, AbortHandle)>>,
    /// The drop of this ends the task that listens for all connections. The task runs on the
    /// background thread, because a program may block the runtime that opened a connection.
    listening: Mutex<Option<oneshot::Sender<Infallible>>>,
}

impl SwitchListener {
    pub(crate) fn new(service: &str, sentinels: &[Address], to_sentinels: Dialer) -> Arc<Self> {
        Arc::new(Self {
            service: service.to_owned(),
            sentinels: sentinels.to_vec(),
            to_sentinels,
            pool: Mutex::default(),
            listening: Mutex::default(),
        })
    }

    /// Closes this connection once another server is the primary.
    pub(crate) fn watch(self: &Arc<Self>, connection: &Connection) {
        let mut pool = self.pool.lock();
        pool.retain(|(_, closer)| !closer.is_finished());
        pool.push((connection.address().clone(), connection.closer()));
        let mut listening = self.listening.lock();
        if listening.as_ref().is_none_or(oneshot::Sender::is_closed) {
            let (end, ended) = oneshot::channel();
            let task = Box::pin(listen(Arc::downgrade(self), ended));
            // If there is no thread, the next connection starts the task.
            let _ = background::spawn(&SystemClock::new(), task);
            *listening = Some(end);
        }
    }

    async fn subscribe(&self, sentinel: &Address) -> Result<(Connection, Pushes), StoreError> {
        let (sender, pushes) = pushes();
        let connection = self.to_sentinels.dial(sentinel, Some(sender)).await?;
        connection.ask(redis::cmd("SUBSCRIBE").arg(CHANNEL)).await?;
        Ok((connection, pushes))
    }

    /// Closes the connections to other servers than the primary that a message names.
    fn announced(&self, payload: &[u8]) {
        let named = new_primary(&self.service, &String::from_utf8_lossy(payload));
        let Some(primary) = named else { return };
        for (_, closer) in self.pool.lock().iter().filter(|(address, _)| *address != primary) {
            // Requests under way on this connection then have an unknown outcome, and are sent
            // again to the new primary.
            closer.abort();
        }
    }
}

/// Listens until `end` comes, or until a sentinel refuses that.
async fn listen(switches: Weak<SwitchListener>, end: oneshot::Receiver<Infallible>) {
    select(pin!(listen_in_turn(switches)), end).await;
}

/// Listens to one of the sentinels, and to the next one when that sentinel has gone.
async fn listen_in_turn(switches: Weak<SwitchListener>) {
    let first = RandomState::new().hash_one(CHANNEL) as usize;
    for turn in 0.. {
        let Some(listener) = switches.upgrade() else { return };
        let sentinels = &listener.sentinels;
        let opened =
            listener.subscribe(&sentinels[first.wrapping_add(turn) % sentinels.len()]).await;
        drop(listener);
        match opened {
            Ok((_link, mut pushes)) => {
                while let Some(payload) = pushes.next().await {
                    let Some(listener) = switches.upgrade() else { return };
                    listener.announced(&payload);
                }
            }
            Err(error) if error.kind() == StoreErrorKind::Denied => return,
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
}

/// The new primary, if the message is about this service.
fn new_primary(service: &str, payload: &str) -> Option<Address> {
    let words: Vec<_> = payload.split(' ').collect();
    match words[..] {
        [name, _, _, host, port] if name == service => {
            Some(Address { host: host.to_owned(), port: port.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_switch_of_this_service_counts() {
        let new = |payload| new_primary("locks", payload).map(|address| address.to_string());
        assert_eq!(new("locks 10.0.0.1 6379 10.0.0.2 6380"), Some("10.0.0.2:6380".to_owned()));
        assert_eq!(new("other 10.0.0.1 6379 10.0.0.2 6380"), None);
        assert_eq!(new("locks 10.0.0.1 6379 10.0.0.2 port"), None);
        assert_eq!(new("locks"), None);
    }
}
