//! Connections: one per runtime and server, replaced by the next call once it is dead.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::Shared;
use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Value};
use tokio::runtime::{Handle, Id};
use tokio::sync::OnceCell;
use tokio::task::{AbortHandle, JoinHandle};

use super::assure::{self, Assured};
use super::dial::Dialer;
use super::error;
use super::url::Address;
use super::wire::Call;

/// How long a connection may answer nothing before it is given up: 2 s, four requests of the
/// default timeout. Half-open links (a cable, a firewall) are otherwise only noticed by the kernel.
const SILENCE: Duration = Duration::from_secs(2);

/// One connection. Dropping the last handle closes it.
pub(super) struct Link {
    address: Address,
    server: Arc<str>,
    timeout: Duration,
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
    opened: Instant,
    retired: AtomicBool,
    /// What must be so before a grant counts that it carries, if anything.
    assured: Option<Box<Assured>>,
    /// The run of the server, which ends with this connection at the latest.
    run_id: OnceCell<String>,
    /// When the first of the requests was sent that have had no answer since the last answer:
    /// microseconds since `opened`, zero for none.
    silent_since_us: AtomicU64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Link {
    /// A connection that was opened just now, and the task that reads and writes it.
    pub(super) fn new(
        address: Address,
        timeout: Duration,
        connection: MultiplexedConnection,
        driver: JoinHandle<()>,
    ) -> Self {
        Self {
            server: address.to_string().into(),
            address,
            timeout,
            connection,
            driver,
            opened: Instant::now(),
            retired: AtomicBool::new(false),
            assured: None,
            run_id: OnceCell::new(),
            silent_since_us: AtomicU64::new(0),
        }
    }

    /// Where it leads.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The server, as messages name it.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// The same connection, with whatever must be so before a grant counts that it carries.
    pub(super) fn assure(mut self, assured: Assured) -> Self {
        self.assured = Some(Box::new(assured));
        self
    }

    /// What must be so before the reply to this call counts, if anything.
    pub(super) fn assured_for(&self, call: &Call) -> Option<&Assured> {
        self.assured().filter(|_| assure::is_at_stake(call))
    }

    /// What must be so before a grant counts, if anything.
    pub(super) fn assured(&self) -> Option<&Assured> {
        self.assured.as_deref()
    }

    /// Which run of the server it leads to.
    pub(super) async fn run_id(&self) -> Result<&str, StoreError> {
        let asking = || async {
            let info = match self.ask(redis::cmd("INFO").arg("server")).await? {
                Value::VerbatimString { text, .. } => text,
                other => String::from_redis_value(other).unwrap_or_default(),
            };
            let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
            run_id
                .map(|run_id| run_id.trim().to_owned())
                .ok_or_else(|| error::nonsense(&self.server, "INFO: it tells no run_id"))
        };
        self.run_id.get_or_try_init(asking).await.map(String::as_str)
    }

    /// Whether it is worth a request.
    pub(super) fn is_alive(&self) -> bool {
        !self.retired.load(Ordering::Relaxed) && !self.driver.is_finished()
    }

    /// Sends one command; a refusal is an error.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        let value = self.send(command).await?;
        self.check(value)
    }

    /// The same for a question that may take as long as connecting may.
    pub(super) async fn ask_within(
        &self,
        limit: Duration,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        let value = self.send_within(limit, command).await?;
        self.check(value)
    }

    /// Sends such a question; a refusal is a value like others.
    pub(super) async fn send_within(
        &self,
        limit: Duration,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        let mut connection = self.connection.clone();
        connection.set_response_timeout(limit);
        let sent = Instant::now();
        self.heard(sent, limit, connection.send_packed_command(command).await)
    }

    /// Sends one command; a refusal is a value like others.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        let sent = Instant::now();
        let outcome = self.connection.clone().send_packed_command(command).await;
        self.heard(sent, self.timeout, outcome)
    }

    /// Sends many commands at once; refusals are values like others.
    pub(super) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let sent = Instant::now();
        let count = commands.len();
        let outcome = self.connection.clone().send_packed_commands(commands, 0, count).await;
        self.heard(sent, self.timeout, outcome)
    }

    /// Takes a refusal for what it is.
    pub(super) fn check(&self, value: Value) -> Result<Value, StoreError> {
        let Value::ServerError(refusal) = value else { return Ok(value) };
        // A primary that became a replica, or a user that was taken away: another connection may
        // lead elsewhere, this one never will.
        if matches!(refusal.code(), "MASTERDOWN" | "NOAUTH" | "READONLY") {
            self.retire();
        }
        Err(error::refused(&self.server, &refusal))
    }

    /// Learns from an answer, or from its absence, whether the connection is worth keeping.
    fn heard<T>(
        &self,
        sent: Instant,
        limit: Duration,
        outcome: RedisResult<T>,
    ) -> Result<T, StoreError> {
        match outcome {
            Ok(value) => {
                self.silent_since_us.store(0, Ordering::Relaxed);
                Ok(value)
            }
            Err(failure) => {
                if !failure.is_timeout() || self.is_silent(sent) {
                    self.retire();
                }
                Err(error::unanswered(&self.server, limit, failure))
            }
        }
    }

    /// What closes it at once, from anywhere.
    pub(super) fn closer(&self) -> AbortHandle {
        self.driver.abort_handle()
    }

    /// Learns the same from another connection to the same server.
    pub(super) fn heard_beside(&self, sent: Instant, failure: Option<&StoreError>) {
        match failure.map(StoreError::kind) {
            None => self.silent_since_us.store(0, Ordering::Relaxed),
            Some(StoreErrorKind::Timeout) if !self.is_silent(sent) => {}
            Some(_) => self.retire(),
        }
    }

    /// Gives it up: the next call opens another.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether nothing was heard for too long, after a request sent at `sent` had no answer.
    fn is_silent(&self, sent: Instant) -> bool {
        let since_open =
            |at: Instant| u64::try_from((at - self.opened).as_micros()).unwrap_or(u64::MAX).max(1);
        let sent_us = since_open(sent);
        let first =
            self.silent_since_us.compare_exchange(0, sent_us, Ordering::Relaxed, Ordering::Relaxed);
        let since_us = first.unwrap_or_else(|earlier| earlier);
        let silence_us = since_open(Instant::now()).saturating_sub(since_us);
        Duration::from_micros(silence_us) >= SILENCE
    }
}

/// Opens connections for requests.
pub(super) trait Open: fmt::Debug + Send + Sync + 'static {
    /// What tells where a connection leads: an address, or what stands for one.
    type Place: Clone + fmt::Debug + Eq + Hash + Send;

    /// Opens one on the calling runtime.
    fn open(self: Arc<Self>, place: Self::Place) -> BoxFuture<'static, Result<Link, StoreError>>;

    /// How long that may take.
    fn open_limit(&self) -> Duration;
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<Link>, StoreError>>>;

#[derive(Debug)]
enum Slot {
    Open(Arc<Link>),
    /// Callers share one attempt. It is driven by whoever waits for it, so nothing is lost when
    /// one of them gives up.
    Opening {
        since: Instant,
        attempt: Attempt,
    },
}

/// The connections of one store, each made by and used from one runtime only: the sockets of a
/// runtime that has ended are dead, and a keeper must not depend on a runtime that is blocked.
#[derive(Debug)]
pub(super) struct Links<O: Open = Dialer> {
    opener: Arc<O>,
    slots: Mutex<HashMap<(Id, O::Place), Slot>>,
}

impl<O: Open> Links<O> {
    pub(super) fn new(opener: Arc<O>) -> Self {
        Self { opener, slots: Mutex::default() }
    }

    /// The connection of the calling runtime to a place, opened if need be.
    pub(super) async fn to(&self, place: &O::Place) -> Result<Arc<Link>, StoreError> {
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::new(
                StoreErrorKind::Unsupported,
                "a Redis store was called outside of a tokio runtime: use leasehold::blocking",
            ));
        };
        let place = (runtime.id(), place.clone());
        let attempt = match self.open_or_join(&place) {
            Ok(link) => return Ok(link),
            Err(attempt) => attempt,
        };
        let outcome = attempt.clone().await;
        let mut slots = self.slots();
        if let Some(Slot::Opening { attempt: current, .. }) = slots.get(&place)
            && current.ptr_eq(&attempt)
        {
            match &outcome {
                Ok(link) => slots.insert(place, Slot::Open(Arc::clone(link))),
                Err(_) => slots.remove(&place),
            };
        }
        outcome
    }

    fn open_or_join(&self, place: &(Id, O::Place)) -> Result<Arc<Link>, Attempt> {
        let mut slots = self.slots();
        match slots.get(place) {
            Some(Slot::Open(link)) if link.is_alive() => return Ok(Arc::clone(link)),
            Some(Slot::Opening { since, attempt }) if self.is_fresh(*since) => {
                return Err(attempt.clone());
            }
            Some(_) | None => {}
        }
        slots.retain(|_, slot| match slot {
            Slot::Open(link) => link.is_alive(),
            Slot::Opening { since, .. } => self.is_fresh(*since),
        });
        let opening = Arc::clone(&self.opener).open(place.1.clone());
        let attempt = opening.map(|outcome| outcome.map(Arc::new)).boxed().shared();
        slots.insert(
            place.clone(),
            Slot::Opening { since: Instant::now(), attempt: attempt.clone() },
        );
        Err(attempt)
    }

    /// An attempt that nobody has driven for so long would only report its own age.
    fn is_fresh(&self, since: Instant) -> bool {
        since.elapsed() < self.opener.open_limit()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<(Id, O::Place), Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
