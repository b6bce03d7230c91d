//! The layout `plain`: the lock of the Redis documentation, `SET key value NX PX`, compare and
//! delete, compare and expire. It excludes, and is excluded by, every program that uses the same
//! commands.
//!
//! The server has only that one string, which ends with the hold. So there is no queue and no
//! shared mode, and the server does not remember ended attempts. If a copy of a request arrives
//! after its attempt has ended, the server grants it, although it has no caller: the name then
//! stays taken for one ttl.

pub(crate) mod value;

use leasehold_core::{Action, Answer, Description, End, Keep, LockName, Mode, StoreError, Take};
use redis::Cmd;

use super::script::Script;
use super::shared::{self, flag, number, revoked, unsupported};
use super::{Layout, effect, is_granted, key, millis, reply};
use crate::store::redis::connection::call::{Call, Effect, Request};

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The beginning of all keys.
    pub prefix: String,
}

impl Layout for Plain {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let (script, args, decode): (_, _, reply::Decode) = match action {
            Action::End(End { request, cooldown, .. }) => {
                let args = vec![value::begin(request.id), number(millis(*cooldown))];
                (Script::PlainEnd, args, reply::ended)
            }
            Action::Keep(lease) => (Script::PlainKeep, keep(lease).to_vec(), reply::kept),
            Action::Look { .. } => (Script::PlainLook, Vec::new(), value::looked),
            Action::Revoke { id, force } => {
                let inbox = key::inbox(&self.prefix, id.client);
                let args = vec![value::begin(*id), flag(*force), inbox, revoked(*id, *force)];
                (Script::PlainRevoke, args, reply::ended)
            }
            Action::Take(request) => {
                check(name, request.request.mode)?;
                (Script::PlainTake, take(request), reply::taken)
            }
            _ => return Err(StoreError::unknown_request()),
        };
        let call = Call::new(Request::new(script.text()).with([self.key(name)], args), decode);
        Ok(call.with_effect(effect(action), is_granted))
    }

    fn keep(&self, leases: &[(LockName, Keep)]) -> Result<Call<Answer>, StoreError> {
        let keys = leases.iter().map(|(name, _)| self.key(name));
        let args = leases.iter().flat_map(|(_, lease)| keep(lease));
        let request = Request::new(Script::PlainKeep.text()).with(keys, args);
        let call = Call::new(request, reply::many_kept);
        Ok(call.with_effect(Some(Effect::Renewal), is_granted))
    }

    /// Nothing is escaped, because other programs escape nothing.
    fn key(&self, name: &LockName) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    fn name(&self, key: &[u8]) -> Option<LockName> {
        shared::name(&self.prefix, key)
    }

    fn pattern(&self, begin: &str) -> Vec<u8> {
        key::beginning_with(&format!("{}{begin}", self.prefix))
    }

    fn peek(&self, key: &[u8]) -> Cmd {
        let mut peek = redis::cmd("GETRANGE");
        peek.arg(key).arg(0).arg(value::MARK.len() - 1);
        peek
    }

    /// With a prefix, a scan finds only keys of locks. Each keeps its name from all, even if its
    /// value is empty or no string. Without a prefix, the scan also finds other data.
    fn is_lock(&self, value: &[u8], _: u64) -> bool {
        !self.prefix.is_empty() || value == value::MARK.as_bytes()
    }
}

/// The warning about a missing prefix: programs that write their keys differently do not exclude
/// each other, and nothing else would show that.
pub(crate) fn keys_note(prefix: &str) -> String {
    format!(
        "with layout=plain the key of a lock is {prefix:?} and its name: give prefix= as the other \
         programs write their keys, with nothing behind it if they use the bare name"
    )
}

fn check(name: &LockName, mode: Mode) -> Result<(), StoreError> {
    match mode {
        Mode::Exclusive => Ok(()),
        Mode::Permits { .. } => Err(refused(name, "such a lock has no permits")),
        _ => Err(refused(name, "such a lock is not shared")),
    }
}

/// The arguments of a take. The nodes of a quorum use the request's ballot, so that they all have
/// the same token.
fn take(Take { request, ttl, ballot_us, from, .. }: &Take) -> Vec<Vec<u8>> {
    vec![
        value::begin(request.id),
        value::end(&request.info),
        number(millis(*ttl)),
        number(ballot_us.unwrap_or(0)),
        from.map(value::begin).unwrap_or_default(),
    ]
}

fn keep(Keep { request, ttl, description, .. }: &Keep) -> [Vec<u8>; 3] {
    let said = description.as_deref().map(|Description { token, info, .. }| {
        [number(token.micros()), value::end(info)].concat() //
    });
    [value::begin(request.id), number(millis(*ttl)), said.unwrap_or_default()]
}

fn refused(name: &LockName, why: &str) -> StoreError {
    let why = format!(
        "with layout=plain a lock has one holder, and {why}: leave the layout out, where no \
         program in another language needs the name"
    );
    unsupported(name, &why)
}
