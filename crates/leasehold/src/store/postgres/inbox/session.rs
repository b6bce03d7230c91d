//! The session that listens: it is opened, tried, watched, replaced and closed.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::Inboxes;
use crate::mutex::Mutex;
use crate::store::pace::Paces;
use crate::store::postgres::connection::dial::Dialed;
use crate::store::postgres::connection::error;

/// The interval at which a quiet session is pinged: 5 s. Waiters also ask the store once a second,
/// so the ping only limits for how long waiters depend on asking.
const PING_EVERY: Duration = Duration::from_secs(5);

/// How long a notification to the session itself may take, and after that the answer to a ping:
/// 3 s.
const TRIAL: Duration = Duration::from_secs(3);

/// The first and the longest pause between two attempts to listen again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The listening session and its channels.
#[derive(Default)]
pub(super) struct Listening {
    state: Mutex<State>,
    /// Locked by the caller that changes the session. Contains the servers from which a
    /// notification has arrived: there is no pooler before them.
    turn: tokio::sync::Mutex<BTreeSet<String>>,
    /// Keeps callers from immediately trying again what has just failed for another caller.
    pace: Paces<()>,
}

#[derive(Default)]
enum State {
    #[default]
    Closed,
    Open {
        client: Arc<Client>,
        channels: BTreeSet<String>,
    },
    /// There is a pooler in between, so nothing will ever arrive.
    Silent,
}

impl Listening {
    /// Whether notifications of a channel arrive.
    pub(super) fn has(&self, channel: &str) -> bool {
        match &*self.state.lock() {
            State::Open { client, channels } => !client.is_closed() && channels.contains(channel),
            State::Closed | State::Silent => false,
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(&*self.state.lock(), State::Silent)
    }

    fn client(&self) -> Option<Arc<Client>> {
        match &*self.state.lock() {
            State::Open { client, .. } if !client.is_closed() => Some(Arc::clone(client)),
            State::Open { .. } | State::Closed | State::Silent => None,
        }
    }

    fn set(&self, state: State) {
        *self.state.lock() = state;
    }

    /// Records to what a session listens. False if it is not the session any more.
    fn keep(&self, session: &Arc<Client>, wanted: Vec<String>) -> bool {
        match &mut *self.state.lock() {
            State::Open { client, channels } if Arc::ptr_eq(client, session) => {
                *channels = wanted.into_iter().collect();
                true
            }
            State::Open { .. } | State::Closed | State::Silent => false,
        }
    }

    /// Whether this is the session, and has not ended.
    fn is_open(&self, session: &Arc<Client>) -> bool {
        self.client().is_some_and(|client| Arc::ptr_eq(&client, session))
    }

    /// Closes a session that has ended. If another one was opened meanwhile, it stays.
    fn close(&self, ended: &Arc<Client>) {
        let mut state = self.state.lock();
        if let State::Open { client, .. } = &*state
            && Arc::ptr_eq(client, ended)
        {
            *state = State::Closed;
        }
    }
}

/// Listens to all channels that somebody wants, and opens the session if there is none.
///
/// The future is boxed, because the session is watched, and the watcher calls this function to open
/// the next session.
pub(super) fn listen(inboxes: Arc<Inboxes>) -> BoxFuture<'static, Result<(), StoreError>> {
    Box::pin(async move { listen_to_all(&inboxes).await })
}

async fn listen_to_all(inboxes: &Arc<Inboxes>) -> Result<(), StoreError> {
    let (listening, wanted) = (&inboxes.listening, Instant::now());
    let mut without_pooler = listening.turn.lock().await;
    if listening.is_silent() || listen_to_more(inboxes).await {
        return Ok(());
    }
    // If another attempt has failed since this caller has waited, that is its result, too.
    listening.pace.turn(wanted, &()).await?;
    let opened = open(inboxes, &mut without_pooler).await;
    listening.pace.dialled(&(), &opened);
    opened
}

/// Listens to all channels that somebody wants, if there is a session and it answers.
async fn listen_to_more(inboxes: &Inboxes) -> bool {
    let listening = &inboxes.listening;
    let Some(client) = listening.client() else { return false };
    let wanted = inboxes.channels();
    let missing: Vec<_> = wanted.iter().filter(|channel| !listening.has(channel)).collect();
    let listens = listen_to(&client, missing.into_iter());
    let listens = timeout(inboxes.sessions.timeout, listens).await;
    if matches!(listens, Ok(Ok(()))) && listening.keep(&client, wanted) {
        return true;
    }
    listening.close(&client);
    false
}

/// Opens a session that listens to all channels that somebody wants.
async fn open(
    inboxes: &Arc<Inboxes>,
    without_pooler: &mut BTreeSet<String>,
) -> Result<(), StoreError> {
    let (listening, limit) = (&inboxes.listening, inboxes.sessions.timeout);
    let Dialed { client, driver, server, .. } = inboxes.dialer.dial().await?;
    let (heard, trial) = oneshot::channel();
    let client = Arc::new(client);
    tokio::spawn(drive(Arc::downgrade(inboxes), driver, heard));
    let own = format!("lh_t_{:032x}", random()?);
    let wanted = inboxes.channels();
    timeout(limit, listen_to(&client, wanted.iter().chain([&own])))
        .await
        .map_err(|_| error::too_slow(&server, "a request", limit))?
        .map_err(|failure| error::request(&server, failure))?;
    listening
        .set(State::Open { client: Arc::clone(&client), channels: wanted.into_iter().collect() });
    if !without_pooler.contains(&server) {
        match is_heard(inboxes, (&client, &server), &own, trial).await {
            Ok(true) => {
                without_pooler.insert(server);
            }
            Ok(false) => {
                inboxes.warnings.add(format!(
                    "{server}: a notification to itself did not arrive, so there is a pooler in \
                     between: waiters ask once a second (name the server itself by \
                     `listen=HOST`)"
                ));
                listening.set(State::Silent);
                return Ok(());
            }
            Err(failure) => {
                listening.close(&client);
                return Err(failure);
            }
        }
    }
    tokio::spawn(watch(Arc::downgrade(inboxes), client));
    Ok(())
}

/// Whether a notification to the session itself arrives. A pooler accepts `LISTEN` and gives the
/// session to another client. A slow server sends the notification before the answer to a ping.
async fn is_heard(
    inboxes: &Inboxes,
    (client, server): (&Client, &str),
    own: &String,
    mut trial: oneshot::Receiver<()>,
) -> Result<bool, StoreError> {
    inboxes.notify(std::slice::from_ref(own), &[String::new()]).await?;
    if let Ok(Ok(())) = timeout(TRIAL, &mut trial).await {
        return Ok(true);
    }
    match timeout(TRIAL, client.batch_execute("")).await {
        Ok(Ok(())) => Ok(trial.try_recv().is_ok()),
        Ok(Err(failure)) => Err(error::request(server, failure)),
        Err(_) => Err(error::too_slow(server, "a request", TRIAL)),
    }
}

/// A random number for a channel that nobody else listens to.
fn random() -> Result<u128, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|failure| {
        StoreError::new(StoreErrorKind::Unsupported, format!("no random numbers: {failure}"))
    })?;
    Ok(u128::from_ne_bytes(bytes))
}

/// Makes the server send the notifications of some channels, whose names have only letters, digits
/// and `_`.
async fn listen_to<'a>(
    client: &Client,
    channels: impl Iterator<Item = &'a String>,
) -> Result<(), tokio_postgres::Error> {
    let text: String = channels.map(|channel| format!("LISTEN {channel};")).collect();
    match text.is_empty() {
        true => Ok(()),
        false => client.batch_execute(&text).await,
    }
}

/// Drives the session, and passes on notifications.
async fn drive(
    inboxes: Weak<Inboxes>,
    mut driver: crate::store::postgres::connection::dial::Driver,
    heard: oneshot::Sender<()>,
) {
    let mut heard = Some(heard);
    let notified = |channel: &str, payload: &str| {
        if channel.starts_with("lh_t_") {
            // The send fails if the caller of the trial has given up.
            heard.take().map(|heard| heard.send(()));
        } else if let Some(inboxes) = inboxes.upgrade() {
            inboxes.receive(channel, payload);
        }
    };
    driver.listen(notified).await;
}

/// Closes the session when nobody needs it, and opens another one if it has ended by itself.
async fn watch(inboxes: Weak<Inboxes>, client: Arc<Client>) {
    let mut asked = Instant::now();
    loop {
        sleep(LONGEST_PAUSE).await;
        let Some(inboxes) = inboxes.upgrade() else { return };
        if inboxes.listening.is_silent() || !inboxes.is_wanted() {
            inboxes.listening.close(&client);
            return;
        }
        let mut is_closed = !inboxes.listening.is_open(&client);
        if !is_closed && asked.elapsed() >= PING_EVERY {
            asked = Instant::now();
            is_closed = !matches!(timeout(PING_EVERY, client.batch_execute("")).await, Ok(Ok(())));
        }
        if is_closed {
            inboxes.listening.close(&client);
            drop(client);
            mend(inboxes).await;
            return;
        }
    }
}

/// Listens again, and reports that messages may have been missed.
async fn mend(inboxes: Arc<Inboxes>) {
    let mut jitter = Jitter::new(inboxes.channels().len() as u64);
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let weak = Arc::downgrade(&inboxes);
    drop(inboxes);
    loop {
        sleep(backoff.next_delay(&mut jitter)).await;
        let Some(inboxes) = weak.upgrade() else { return };
        if !inboxes.is_wanted() {
            return;
        }
        if listen(Arc::clone(&inboxes)).await.is_ok() {
            inboxes.tell_gap();
            return;
        }
    }
}
