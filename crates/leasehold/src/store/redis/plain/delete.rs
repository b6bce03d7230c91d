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

use leasehold_core::{Action, Answer, HolderId, LockName, Reply, StoreError};
use redis::Value;

use super::value;
use crate::store::redis::error;
use crate::store::redis::reply;
use crate::store::redis::route::Route;

/// Most values that are remembered: ten thousand, 2 MB. Then all are forgotten, because some may be
/// of leases that were handed to another process and will not be let go here.
const MAX_VALUES: usize = 10_000;

/// What this store was granted, as it stands on the server.
#[derive(Debug, Default)]
pub(in super::super) struct Values {
    known: Mutex<HashMap<HolderId, Vec<u8>>>,
    /// The server, or the user's rights, lack the command.
    is_missing: AtomicBool,
}

impl Values {
    /// Takes note of what an action has made of a value.
    pub(super) fn note(&self, action: &Action, reply: &Reply) {
        if self.is_missing.load(Ordering::Relaxed) {
            return;
        }
        match (action, reply) {
            (Action::Acquire(request), Reply::Granted(grant)) => {
                let token = grant.token.us().to_string().into_bytes();
                let value = [value::begin(request.id), token, value::end(&request.facts)].concat();
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

    /// Deletes the key of a lock that is let go, if its value is known and still stands there.
    /// `None` leaves it to the script.
    ///
    /// # Errors
    ///
    /// When no answer came.
    pub(super) async fn release(
        &self,
        route: &Route,
        prefix: &str,
        name: &LockName,
        action: &Action,
    ) -> Result<Option<Answer>, StoreError> {
        let id = match action {
            Action::Cancel { id, .. } => id,
            Action::Release { id, keep: Duration::ZERO, .. } => id,
            _ => return Ok(None),
        };
        let Some(value) = self.known().remove(id) else { return Ok(None) };
        let key = super::key(prefix, name);
        let link = route.serving(&key).await?;
        let mut pair = redis::pipe();
        pair.cmd("DELIFEQ").arg(key).arg(value).cmd("TIME");
        let mut values = link.ask_all(&pair).await?;
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
        let now = now.ok_or_else(|| error::nonsense(link.server(), "TIME"))?;
        Ok(Some(Answer { now, more: false, reply: super::reply(action, Reply::Released) }))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<HolderId, Vec<u8>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
