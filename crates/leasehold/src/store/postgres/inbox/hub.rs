//! The session that listens, for all clients of a store.
//!
//! Each notification wakes every listening session of the database: four notifiers sent 11,458
//! notifications a second without listeners, and 277 with 256 listeners. So clients share a
//! session, and it is open only while one of them waits or follows a name.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{InvalidInput, StoreError};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use crate::background;
use crate::clock::SystemClock;
use crate::mutex::Mutex;
use crate::store::postgres::connection::dial::{Dialed, Dialer, Driver, listen};
use crate::store::postgres::options::PostgresOptions;

/// How long the session stays open after the last waiter: 10 s.
const LINGER: Duration = Duration::from_secs(10);

/// The interval at which a quiet session is pinged: 5 s. Waiters also ask the store once a second,
/// so the ping only limits for how long waiters depend on asking.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The first and the longest pause between two attempts to listen.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The largest number of notifications that wait to be read by one receiver: 256.
const MOST: usize = 256;

/// The receivers of one store, and the session that hears for them.
pub(super) struct Hub {
    dialer: Arc<Dialer>,
    receivers: Mutex<Receivers>,
    /// Notified when another channel is wanted.
    changed: Notify,
    heard: watch::Sender<Heard>,
}

#[derive(Default)]
struct Receivers {
    list: Vec<Receiver>,
    /// The last time at which somebody waited.
    waited: Option<Instant>,
    /// Whether the session is open, or is being opened.
    is_served: bool,
}

impl Receivers {
    /// The channels to listen to; none if nobody needs the session.
    fn wanted(&mut self) -> BTreeSet<String> {
        self.list.retain(|it| it.sender.receiver_count() > 0);
        let waits = self.waited.is_some_and(|waited| waited.elapsed() < LINGER);
        if !waits && !self.list.iter().any(|it| it.follows) {
            return BTreeSet::new();
        }
        self.list.iter().map(|it| it.channel.clone()).collect()
    }
}

struct Receiver {
    channel: String,
    /// Whether the session is open for this receiver although nobody waits.
    follows: bool,
    /// Gets the payloads of notifications, and `None` if some may have been missed.
    sender: broadcast::Sender<Option<String>>,
}

/// What the session hears.
#[derive(Default)]
struct Heard {
    channels: BTreeSet<String>,
    /// There is a pooler in between, so nothing would ever arrive.
    is_silent: bool,
    failures: u64,
    failure: Option<StoreError>,
}

impl Hub {
    /// A hub for the database of some settings.
    pub(super) fn new(settings: &PostgresOptions) -> Result<Arc<Self>, InvalidInput> {
        let servers = settings.listen.as_ref().map_or(&settings.servers[..], std::slice::from_ref);
        Ok(Arc::new(Self {
            dialer: Dialer::new(settings, servers)?,
            receivers: Mutex::default(),
            changed: Notify::new(),
            heard: watch::Sender::default(),
        }))
    }

    /// A receiver of the notifications of a channel. With `follows`, the session is open for it.
    pub(super) fn receive(
        &self,
        channel: String,
        follows: bool,
    ) -> broadcast::Receiver<Option<String>> {
        let (sender, receiver) = broadcast::channel(MOST);
        self.receivers.lock().list.push(Receiver { channel, follows, sender });
        receiver
    }

    /// Whether there is a receiver of a channel, which does not hear it.
    pub(super) fn is_deaf(&self, channel: &str) -> bool {
        let heard = self.heard.borrow();
        let is_heard = heard.is_silent || heard.channels.contains(channel);
        !is_heard && self.receivers.lock().list.iter().any(|it| it.channel == channel)
    }

    /// Records that somebody waits now.
    pub(super) fn note_waiting(&self) {
        self.receivers.lock().waited = Some(Instant::now());
    }

    /// Waits until a channel is heard. False behind a pooler, where it never is.
    pub(super) async fn listen(self: &Arc<Self>, channel: &str) -> Result<bool, StoreError> {
        let mut heard = self.heard.subscribe();
        let before = heard.borrow().failures;
        {
            let mut receivers = self.receivers.lock();
            if !receivers.is_served {
                background::spawn(&SystemClock::new(), Box::pin(serve(Arc::downgrade(self))))?;
                receivers.is_served = true;
            }
        }
        self.changed.notify_one();
        let known = heard.wait_for(|heard| {
            heard.is_silent || heard.channels.contains(channel) || heard.failures > before
        });
        let heard = known.await.map_err(|_| StoreError::unknown_request())?; // this has the sender
        match &heard.failure {
            Some(failure) if heard.failures > before => Err(failure.clone()),
            _ => Ok(!heard.is_silent),
        }
    }

    /// Passes on a notification, or to all receivers that they may have missed some.
    pub(super) fn pass_on(&self, notification: Option<(&str, &str)>) {
        for Receiver { channel, sender, .. } in &self.receivers.lock().list {
            if notification.is_none_or(|(of, _)| of == channel) {
                // The send fails if the receiver has gone; it is forgotten later.
                let _ = sender.send(notification.map(|(_, payload)| payload.to_owned()));
            }
        }
    }

    /// Listens on a session until nobody needs it, or it fails.
    async fn hear(&self, dialed: Dialed, mut driver: Driver, is_again: bool) {
        let hearing =
            listen(&mut driver, |channel, payload| self.pass_on(Some((channel, payload))));
        let asking = async {
            self.ask(&dialed.client, is_again).await;
            // Another session is opened once the server has ended this one, or answers nobody.
            let mut answer = std::pin::pin!(dialed.client.batch_execute(""));
            while timeout(self.dialer.settings.timeout, answer.as_mut()).await.is_err()
                && self.dialer.is_answering(dialed.at).await
            {}
        };
        tokio::select! {
            () = hearing => {}
            () = asking => {}
        }
        self.heard.send_modify(|heard| heard.channels.clear());
    }

    /// Listens to each channel that somebody wants, and pings.
    async fn ask(&self, client: &Client, mut is_again: bool) {
        let mut is_quiet = false;
        loop {
            let wanted = self.receivers.lock().wanted();
            if wanted.is_empty() {
                return;
            }
            // The names of channels have only letters, digits and `_`.
            let text: String = {
                let missing = &wanted - &self.heard.borrow().channels;
                missing.iter().map(|channel| format!("LISTEN {channel};")).collect()
            };
            let asking = timeout(self.dialer.settings.timeout, client.batch_execute(&text));
            if (is_quiet || !text.is_empty()) && !matches!(asking.await, Ok(Ok(()))) {
                return;
            }
            self.heard.send_modify(|heard| heard.channels.extend(wanted));
            if std::mem::take(&mut is_again) {
                self.pass_on(None);
            }
            is_quiet = timeout(PING_EVERY, self.changed.notified()).await.is_err();
        }
    }
}

/// Keeps a session open for as long as somebody needs it.
async fn serve(hub: Weak<Hub>) {
    let mut backoff = Backoff::new(PAUSES, Jitter::new(0));
    let mut is_again = false;
    while let Some(hub) = hub.upgrade() {
        {
            let mut receivers = hub.receivers.lock();
            receivers.is_served = !receivers.wanted().is_empty();
            if !receivers.is_served {
                return;
            }
        }
        match hub.dialer.dial().await {
            Ok((dialed, driver)) if dialed.is_direct => {
                backoff.reset();
                hub.hear(dialed, driver, is_again).await;
            }
            Ok(_) => return hub.heard.send_modify(|heard| heard.is_silent = true),
            Err(failure) => hub.heard.send_modify(|heard| {
                heard.failures += 1;
                heard.failure = Some(failure);
            }),
        }
        is_again = true;
        drop(hub);
        sleep(backoff.next_delay()).await;
    }
}
