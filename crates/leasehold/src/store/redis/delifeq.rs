//! Letting go with one command, where the server has it: `DELIFEQ key value` deletes a key that has
//! this value. It costs the server a third of the script.
//!
//! Valkey has it since 9.0. It needs the whole value, which only the grant knows: so the values of
//! what this store was granted are remembered. The script does the same without them, and whatever
//! is unusual (a value that was changed meanwhile, another server, a missing right) is left to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{Action, Answer, Cancelled, HolderId, Reply, StoreError};
use redis::Value;

use super::connection::{Connection, error};
use super::layout::plain::value;
use super::layout::reply;

/// Most values that are remembered: ten thousand, 2 MB. Then all are forgotten, because some may be
/// of leases that were handed to another process and will not be let go here.
const MAX_VALUES: usize = 10_000;

/// What this store was granted, as it stands on the server.
#[derive(Debug, Default)]
pub(crate) struct Values {
    known: Mutex<HashMap<HolderId, Vec<u8>>>,
    /// The server, or the user's rights, lack the command.
    is_missing: AtomicBool,
}

impl Values {
    /// Takes note of what an action has made of a value.
    pub(crate) fn note(&self, action: &Action, reply: &Reply) {
        if self.is_missing.load(Ordering::Relaxed) {
            return;
        }
        match (action, reply) {
            (Action::Acquire(request), Reply::Granted(grant)) => {
                let token = grant.token.micros().to_string().into_bytes();
                let value = [value::begin(request.id), token, value::end(&request.info)].concat();
                let mut known = self.known();
                if known.len() >= MAX_VALUES {
                    known.clear();
                }
                known.insert(request.id, value);
            }
            (Action::Describe { id, .. } | Action::Revoke { id, .. }, _) => {
                self.known().remove(id);
            }
            _ => {}
        }
    }

    /// The value that an action lets go of, if it is known. It is forgotten with that.
    pub(crate) fn let_go(&self, action: &Action) -> Option<Vec<u8>> {
        match action {
            Action::Cancel { id, .. } | Action::Release { id, cooldown: Duration::ZERO, .. } => {
                self.known().remove(id)
            }
            _ => None,
        }
    }

    /// Deletes the key of a lock if its value still stands there. `None` leaves it to the script.
    ///
    /// # Errors
    ///
    /// When no answer came.
    pub(crate) async fn delete(
        &self,
        connection: &Connection,
        key: Vec<u8>,
        value: Vec<u8>,
        action: &Action,
    ) -> Result<Option<Answer>, StoreError> {
        let mut pair = redis::pipe();
        pair.cmd("DELIFEQ").arg(key).arg(value).cmd("TIME");
        let mut values = connection.ask_all(&pair).await?;
        let (time, deleted) = (values.pop(), values.pop());
        match deleted {
            Some(Value::Int(1)) => {}
            Some(Value::ServerError(refusal)) => {
                let words = refusal.details().unwrap_or_default();
                if refusal.code() == "NOPERM" || words.starts_with("unknown command") {
                    self.is_missing.store(true, Ordering::Relaxed);
                    self.known().clear();
                }
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let now = time.and_then(reply::time);
        let now = now.ok_or_else(|| error::unexpected_reply(connection.server(), "TIME"))?;
        let reply = match action {
            Action::Cancel { .. } => Reply::Cancelled(Cancelled::Released),
            _ => Reply::Released,
        };
        Ok(Some(Answer::new(now, reply)))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<HolderId, Vec<u8>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
