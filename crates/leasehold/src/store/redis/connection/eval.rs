//! Running a script by its hash, EVALSHA: the only place that handles NOSCRIPT and ASKING.

use leasehold_core::StoreError;
use redis::{Cmd, Pipeline, ServerError, ServerErrorKind, Value};

use super::call::{Call, ScriptText};
use super::{Connection, error};

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

/// Runs a script. With `asking`, a node of a cluster may answer although the slot is not its own
/// yet.
pub(crate) async fn run<A>(
    connection: &Connection,
    call: &Call<A>,
    asking: bool,
) -> Result<Value, Failure> {
    let mut loads = Loads::default();
    loop {
        let value = match asking {
            // While its slot moves, a free name is set alone, and the caller draws the number.
            true => {
                let command = call.request.set().unwrap_or_else(|| call.request.command());
                Box::pin(ask(connection, command)).await?
            }
            false => connection.call(&call.request).await?,
        };
        if !loads.helped(connection, call.request.script, &value).await? {
            return check(connection, value);
        }
    }
}

/// Sends one command to a node that may answer although the slot is not its own yet.
pub(crate) async fn ask(connection: &Connection, command: Cmd) -> Result<Value, StoreError> {
    let mut both = Pipeline::new();
    add(&mut both, command, true);
    let replies = connection.ask_all(&both).await?;
    replies.into_iter().last().ok_or_else(|| error::unexpected_reply(connection.server(), "ASKING"))
}

/// Adds the call of a script to the commands that are sent together. ASKING only applies to the
/// command that follows it.
pub(crate) fn add(together: &mut Pipeline, command: Cmd, asking: bool) {
    if asking {
        together.cmd("ASKING");
    }
    together.add_command(command);
}

/// The reply of a script, unless it is a refusal.
pub(crate) fn check(connection: &Connection, value: Value) -> Result<Value, Failure> {
    match value {
        Value::ServerError(refusal) if error::is_not_served(&refusal) => {
            Err(Failure::NotServed { server: connection.server().to_owned(), refusal })
        }
        value => Ok(connection.check(value)?),
    }
}

/// Loads scripts into a server that does not have them, as long as loading can help.
#[derive(Debug, Default)]
pub(crate) struct Loads(u32);

impl Loads {
    /// Whether the call has to be sent again, because its script was loaded just now.
    pub(crate) async fn helped(
        &mut self,
        connection: &Connection,
        script: &ScriptText,
        value: &Value,
    ) -> Result<bool, StoreError> {
        if !is_unknown_script(value) || self.0 == LOAD_TRIES {
            return Ok(false);
        }
        self.0 += 1;
        Box::pin(load(connection, script)).await?;
        Ok(true)
    }
}

/// Whether a server replies that it does not have a script.
pub(crate) fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(refusal)
        if refusal.kind() == Some(ServerErrorKind::NoScript))
}

/// Loads a script into a server.
pub(crate) async fn load(connection: &Connection, script: &ScriptText) -> Result<(), StoreError> {
    connection.ask(redis::cmd("SCRIPT").arg("LOAD").arg(&script.source)).await.map(drop)
}
