//! Bytes to and from one server: opening a connection, sending commands and scripts, and the
//! meaning of an answer, a refusal or silence for the connection. This module has no policy and no
//! script. It is the only place that handles NOSCRIPT and ASKING.

pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod dial;
pub(crate) mod error;
pub(crate) mod info;
mod link;
pub(crate) mod pushes;
pub(crate) mod resp;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, ServerError, ServerErrorKind, Value};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use self::call::{Request, ScriptText};
use self::info::Info;
use self::link::Ask;
use self::wire::Wire;
use crate::store::redis::options::Address;

/// How many times a script is loaded for one call: 3, in case somebody flushes the server's scripts
/// in between.
const LOAD_TRIES: u32 = 3;

/// Why a script gave no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A node of a cluster says that another node serves the key, or that no node does at the
    /// moment. Nothing was executed.
    NotServed { server: String, refusal: ServerError },
    /// Any other reason.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotServed { server, refusal } => error::refused(&server, &refusal),
            Failure::Store(error) => error,
        }
    }
}

/// One connection. Dropping the last handle closes it.
pub(crate) struct Connection {
    address: Address,
    server: Arc<str>,
    timeout: Duration,
    wire: Wire,
    /// The run id of the server. The run cannot change while this connection is open.
    run_id: OnceCell<String>,
}

debug_as!(Connection => |it, f| f.debug_tuple("Connection").field(&it.server).finish());

impl Connection {
    /// A new connection.
    fn new(address: Address, timeout: Duration, wire: Wire) -> Self {
        Self { server: address.to_string().into(), address, timeout, wire, run_id: OnceCell::new() }
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The server, as messages name it.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The run id of the server.
    pub(crate) async fn run_id(&self) -> Result<&str, StoreError> {
        let asking = || async {
            let info = Info::of(self.ask(redis::cmd("INFO").arg("server")).await?);
            let run_id = info.field("run_id").map(ToOwned::to_owned);
            run_id.ok_or_else(|| error::unexpected_reply(&self.server, "INFO: there is no run_id"))
        };
        self.run_id.get_or_try_init(asking).await.map(String::as_str)
    }

    /// The server's INFO; `None` if the user may not ask.
    pub(crate) async fn info(&self, limit: Duration) -> Result<Option<Info>, StoreError> {
        match self.ask_within(limit, &redis::cmd("INFO")).await {
            Ok(value) => Ok(Some(Info::of(value))),
            Err(error) if error.kind() == StoreErrorKind::Denied && !error.may_have_executed() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the connection can still be used, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        self.wire.is_open()
    }

    /// Sends one command; a refusal is an error.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.ask_within(self.timeout, command).await
    }

    /// Like [`ask`](Self::ask), with another time limit, such as that for connecting.
    pub(crate) async fn ask_within(
        &self,
        limit: Duration,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        let value = self.send_within(limit, command).await?;
        self.check(value)
    }

    /// Like [`send`](Self::send), with another time limit.
    pub(crate) async fn send_within(
        &self,
        limit: Duration,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        self.exchange(command.into(), limit).await
    }

    /// Sends one command; a refusal is a value like others.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.send_within(self.timeout, command).await
    }

    /// Sends many commands together; refusals are values like others.
    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        match self.exchange(commands.into(), self.timeout).await? {
            Value::Array(replies) => Ok(replies),
            reply => Ok(vec![reply]),
        }
    }

    /// Subscribes to each of some channels, with SUBSCRIBE or SSUBSCRIBE.
    pub(crate) async fn subscribe(&self, verb: &str, channels: &[Vec<u8>]) -> Result<(), Failure> {
        // Each channel has a separate reply.
        let mut each = Pipeline::new();
        for channel in channels {
            each.cmd(verb).arg(channel);
        }
        let replies = self.ask_all(&each).await?;
        replies.into_iter().try_for_each(|reply| self.check_served(reply).map(drop))
    }

    /// Sends something. A connection that failed is not used again.
    async fn exchange(&self, ask: Ask, limit: Duration) -> Result<Value, StoreError> {
        self.wire.send(ask, limit).await.map_err(|failure| {
            if !failure.is_timeout() {
                self.retire();
            }
            error::unanswered(&self.server, limit, failure)
        })
    }

    /// Turns a refusal into an error.
    pub(crate) fn check(&self, value: Value) -> Result<Value, StoreError> {
        let Value::ServerError(refusal) = value else { return Ok(value) };
        // The primary became a replica, or the user was removed. A new connection may lead to
        // another server; this one never will.
        if matches!(refusal.code(), "MASTERDOWN" | "NOAUTH" | "READONLY") {
            self.retire();
        }
        Err(error::refused(&self.server, &refusal))
    }

    /// Calls a script by its hash. With `asking`, a node of a cluster may answer although the slot
    /// is not its own yet.
    pub(crate) async fn run(&self, request: &Arc<Request>, asking: bool) -> Result<Value, Failure> {
        let mut tries = 0;
        loop {
            let value = match asking {
                // While its slot moves, a free name is set alone, and the caller draws the number.
                true => {
                    let command = request.set().unwrap_or_else(|| request.command());
                    Box::pin(self.ask_moving(command)).await?
                }
                false => self.exchange(Ask::Call(Arc::clone(request)), self.timeout).await?,
            };
            if !is_to_load(&value, &mut tries) {
                return self.check_served(value);
            }
            Box::pin(self.load(request.script)).await?;
        }
    }

    /// Sends one command to a node that may answer although the slot is not its own yet.
    pub(crate) async fn ask_moving(&self, command: Cmd) -> Result<Value, StoreError> {
        let mut both = Pipeline::new();
        add(&mut both, command, true);
        let replies = self.ask_all(&both).await?;
        replies.into_iter().last().ok_or_else(|| error::unexpected_reply(&self.server, "ASKING"))
    }

    /// The reply of a script, unless it is a refusal.
    pub(crate) fn check_served(&self, value: Value) -> Result<Value, Failure> {
        match value {
            Value::ServerError(refusal) if error::is_not_served(&refusal) => {
                Err(Failure::NotServed { server: self.server().to_owned(), refusal })
            }
            value => Ok(self.check(value)?),
        }
    }

    /// Loads a script into the server.
    pub(crate) async fn load(&self, script: &ScriptText) -> Result<(), StoreError> {
        self.ask(redis::cmd("SCRIPT").arg("LOAD").arg(&script.source)).await.map(drop)
    }

    /// A handle that closes the connection immediately, from anywhere.
    pub(crate) fn closer(&self) -> AbortHandle {
        self.wire.closer()
    }

    /// Gives the connection up: the next call opens another one.
    pub(crate) fn retire(&self) {
        self.wire.give_up();
    }
}

/// Adds the call of a script to the commands that are sent together. ASKING only applies to the
/// command that follows it.
pub(crate) fn add(together: &mut Pipeline, command: Cmd, asking: bool) {
    if asking {
        together.cmd("ASKING");
    }
    together.add_command(command);
}

/// Whether to load the script of a call with this reply, and to send the call again.
pub(crate) fn is_to_load(reply: &Value, tries: &mut u32) -> bool {
    *tries += 1;
    let is_unknown = matches!(reply, Value::ServerError(refusal)
        if refusal.kind() == Some(ServerErrorKind::NoScript));
    is_unknown && *tries <= LOAD_TRIES
}
