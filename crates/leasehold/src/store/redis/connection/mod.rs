//! Bytes to and from one server: opening a connection, sending commands and scripts, and what an
//! answer, a refusal or silence says about the connection. It knows no policy and no script.

pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod dial;
pub(crate) mod error;
pub(crate) mod eval;
pub(crate) mod info;
mod link;
mod pace;
pub(crate) mod pushes;
pub(crate) mod resp;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use self::call::Request;
use self::info::Info;
use self::link::Ask;
use self::wire::Wire;
use crate::store::redis::options::Address;

/// How long a connection may answer nothing before it is given up: 2 s, four requests of the
/// default timeout. Half-open links (a cable, a firewall) are otherwise only noticed by the kernel.
const SILENCE: Duration = Duration::from_secs(2);

/// One connection. Dropping the last handle closes it.
pub(crate) struct Connection {
    address: Address,
    server: Arc<str>,
    timeout: Duration,
    wire: Wire,
    opened: Instant,
    retired: AtomicBool,
    /// The run of the server, which ends with this connection at the latest.
    run_id: OnceCell<String>,
    /// When the first of the requests was sent that have had no answer since the last answer:
    /// microseconds since `opened`, zero for none.
    silent_since_us: AtomicU64,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl AsRef<Self> for Connection {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A request under way. A caller with the same limit, such as a quorum, may drop it before it has
/// been told that its time is over: that is silence, too. One that is dropped soon says nothing.
struct Unheard<'a> {
    connection: &'a Connection,
    sent: Instant,
    limit: Duration,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if self.sent.elapsed() >= self.limit / 2 && self.connection.is_silent(self.sent) {
            self.connection.retire();
        }
    }
}

impl Connection {
    /// A connection that was opened just now.
    fn new(address: Address, timeout: Duration, wire: Wire) -> Self {
        Self {
            server: address.to_string().into(),
            address,
            timeout,
            wire,
            opened: Instant::now(),
            retired: AtomicBool::new(false),
            run_id: OnceCell::new(),
            silent_since_us: AtomicU64::new(0),
        }
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The server, as messages name it.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Which run of the server it leads to.
    pub(crate) async fn run_id(&self) -> Result<&str, StoreError> {
        let asking = || async {
            let info = Info::of(self.ask(redis::cmd("INFO").arg("server")).await?);
            let run_id = info.field("run_id").map(ToOwned::to_owned);
            run_id.ok_or_else(|| error::unexpected_reply(&self.server, "INFO: there is no run_id"))
        };
        self.run_id.get_or_try_init(asking).await.map(String::as_str)
    }

    /// What the server says of itself; `None` if the user may not ask.
    pub(crate) async fn info(&self, limit: Duration) -> Result<Option<Info>, StoreError> {
        match self.ask_within(limit, &redis::cmd("INFO")).await {
            Ok(value) => Ok(Some(Info::of(value))),
            Err(error) if error.kind() == StoreErrorKind::Denied && !error.may_have_executed() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is worth a request.
    pub(crate) fn is_alive(&self) -> bool {
        !self.retired.load(Ordering::Relaxed) && self.wire.is_open()
    }

    /// Sends one command; a refusal is an error.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        let value = self.send(command).await?;
        self.check(value)
    }

    /// The same for a question that may take as long as connecting may.
    pub(crate) async fn ask_within(
        &self,
        limit: Duration,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        let value = self.send_within(limit, command).await?;
        self.check(value)
    }

    /// Sends such a question; a refusal is a value like others.
    pub(crate) async fn send_within(
        &self,
        limit: Duration,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        self.exchange(command.into(), limit).await
    }

    /// Sends one command; a refusal is a value like others.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.exchange(command.into(), self.timeout).await
    }

    /// Makes the call of a script; a refusal is a value like others.
    pub(crate) async fn call(&self, request: &Arc<Request>) -> Result<Value, StoreError> {
        self.exchange(Ask::Call(Arc::clone(request)), self.timeout).await
    }

    /// Sends many commands at once; refusals are values like others.
    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        self.ask_all_within(self.timeout, commands).await
    }

    /// The same for questions that may take longer.
    pub(crate) async fn ask_all_within(
        &self,
        limit: Duration,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        match self.exchange(commands.into(), limit).await? {
            Value::Array(replies) => Ok(replies),
            reply => Ok(vec![reply]),
        }
    }

    /// Subscribes to each of some channels, with SUBSCRIBE or SSUBSCRIBE.
    pub(crate) async fn subscribe(
        &self,
        verb: &str,
        channels: &[Vec<u8>],
    ) -> Result<(), StoreError> {
        // Each channel has a reply of its own.
        let mut each = Pipeline::new();
        for channel in channels {
            each.cmd(verb).arg(channel);
        }
        let replies = self.ask_all(&each).await?;
        replies.into_iter().try_for_each(|reply| self.check(reply).map(drop))
    }

    /// Sends something, and learns from the answer, or from its absence, whether the connection is
    /// worth keeping.
    async fn exchange(&self, ask: Ask, limit: Duration) -> Result<Value, StoreError> {
        let sent = Instant::now();
        let unheard = Unheard { connection: self, sent, limit };
        let outcome = self.wire.send(ask, limit).await;
        std::mem::forget(unheard);
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

    /// Takes a refusal for what it is.
    pub(crate) fn check(&self, value: Value) -> Result<Value, StoreError> {
        let Value::ServerError(refusal) = value else { return Ok(value) };
        // A primary that became a replica, or a user that was taken away: another connection may
        // lead elsewhere, this one never will.
        if matches!(refusal.code(), "MASTERDOWN" | "NOAUTH" | "READONLY") {
            self.retire();
        }
        Err(error::refused(&self.server, &refusal))
    }

    /// What closes it at once, from anywhere.
    pub(crate) fn closer(&self) -> AbortHandle {
        self.wire.closer()
    }

    /// Learns the same from another connection to the same server.
    pub(crate) fn note_answer_elsewhere(&self, sent: Instant, failure: Option<&StoreError>) {
        match failure.map(StoreError::kind) {
            None => self.silent_since_us.store(0, Ordering::Relaxed),
            Some(StoreErrorKind::Timeout) if !self.is_silent(sent) => {}
            Some(_) => self.retire(),
        }
    }

    /// Gives it up: the next call opens another.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether nothing has arrived for too long, after a request sent at `sent` had no answer.
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
