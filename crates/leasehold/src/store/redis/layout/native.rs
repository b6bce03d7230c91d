//! The native layout: a hash for each lock. A call of a script has a key and two arguments. The
//! second argument packs all values, because a script reads one packed argument in a third of the
//! time that separate arguments take. The head of each script describes the packed values. Acquires
//! of several names may be made as one call, and so may releases and inspections: the keys, then
//! the shared first argument, then the second argument of each.

use leasehold_core::model::RETENTION;
use leasehold_core::{
    Acquire, Action, Adopt, Answer, Effect, FencingToken, LockName, Reclaim, RenewLease, StoreError,
};
use redis::Cmd;

use super::codec::{RECORD_VERSION, Writer};
use super::script::Script;
use super::{Layout, is_granted, key, reply};
use crate::store::redis::connection::call::Call;

/// The field of a lock's hash that shows whether the lock is idle.
pub(crate) const STATE_FIELD: &str = "s";

/// The size in bytes of the state of a record that nobody holds: `<BBI4I7I7`.
const IDLE_STATE_BYTES: usize = 20;

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Native {
    /// The beginning of all keys and channels.
    pub prefix: String,
}

impl Layout for Native {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let retention = match action {
            Action::Acquire(request) => RETENTION.max(request.remember),
            _ => RETENTION,
        };
        let Some((script, packed)) = pack_action(Writer::roomy().span(retention), action) else {
            return Err(StoreError::unknown_request());
        };
        let keys = vec![key::key(&self.prefix, name)];
        let args = vec![key::inbox_prefix(&self.prefix).into_bytes(), packed.0];
        let call = Call::new(script.text(), keys, args, reply::one);
        Ok(call.with_effect(action.effect(), is_granted))
    }

    fn renew(&self, leases: &[RenewLease]) -> Call<Answer> {
        let packed = leases.iter().fold(Writer::default().span(RETENTION), |packed, lease| {
            packed.id(lease.id).span(lease.ttl)
        });
        let keys = leases.iter().map(|lease| key::key(&self.prefix, &lease.name)).collect();
        let args = vec![key::inbox_prefix(&self.prefix).into_bytes(), packed.0];
        Call::new(Script::Renew.text(), keys, args, reply::many)
            .with_effect(Some(Effect::Renewal), is_granted)
    }

    fn key(&self, name: &LockName) -> Vec<u8> {
        key::key(&self.prefix, name)
    }

    fn name(&self, key: &[u8]) -> Option<LockName> {
        key::name(&self.prefix, key)
    }

    fn pattern(&self, begin: &str) -> Vec<u8> {
        key::pattern(&self.prefix, begin)
    }

    fn peek(&self, key: &[u8]) -> Cmd {
        let mut peek = redis::cmd("HGET");
        peek.arg(key).arg(STATE_FIELD);
        peek
    }

    fn is_lock(&self, value: &[u8]) -> bool {
        !is_idle(value)
    }
}

/// The script of an action, and its packed argument; `None` for an action without a script.
fn pack_action(packed: Writer, action: &Action) -> Option<(Script, Writer)> {
    Some(match action {
        Action::Acquire(request) => (Script::Acquire, pack_acquire(packed, request)),
        Action::Adopt(adopt) => (Script::Adopt, pack_adopt(packed, adopt)),
        Action::Cancel { id, unanswered } => (Script::Cancel, packed.id(*id).flag(*unanswered)),
        Action::Commit { id, token, ttl } => {
            (Script::Commit, packed.id(*id).number(token.micros()).span(*ttl))
        }
        Action::Describe { id, info } => (Script::Describe, packed.id(*id).info(info)),
        Action::Inspect { limit } => (Script::Inspect, packed.word(*limit)),
        Action::Poll { id, ttl } => (Script::Poll, packed.id(*id).span(*ttl)),
        Action::Reclaim(claim) => (Script::Reclaim, pack_reclaim(packed, claim)),
        Action::Release { id, cooldown, unanswered } => {
            (Script::Release, packed.id(*id).span(*cooldown).flag(*unanswered))
        }
        Action::Renew { id, ttl } => (Script::Renew, packed.id(*id).span(*ttl)),
        Action::Revoke { id, token, force } => {
            let packed = packed.id(*id).number(token.micros());
            (Script::Revoke, packed.bytes(&token.get().to_be_bytes()).flag(*force))
        }
        _ => return None,
    })
}

fn pack_acquire(packed: Writer, request: &Acquire) -> Writer {
    packed
        .id(request.id)
        .word(request.mode.weight())
        .word(request.mode.capacity())
        .span(request.ttl)
        .flag(request.wait)
        .bytes(&request.nonce.to_be_bytes())
        .number(request.not_after_us)
        .number(request.ballot_us.map_or(0, |ballot_us| ballot_us.max(1)))
        .info(&request.info)
}

fn pack_adopt(packed: Writer, Adopt { from, token, request, .. }: &Adopt) -> Writer {
    packed
        .id(request.id)
        .id(*from)
        .word(request.mode.weight())
        .word(request.mode.capacity())
        .number(token.map_or(0, FencingToken::micros))
        .span(request.ttl)
        .bytes(&request.nonce.to_be_bytes())
        .number(request.not_after_us)
        .number(request.ballot_us.map_or(0, |ballot_us| ballot_us.max(1)))
        .info(&request.info)
}

fn pack_reclaim(packed: Writer, Reclaim { token, request, .. }: &Reclaim) -> Writer {
    packed
        .id(request.id)
        .word(request.mode.weight())
        .word(request.mode.capacity())
        .number(token.micros())
        .span(request.ttl)
        .bytes(&request.nonce.to_be_bytes())
        .number(request.not_after_us)
        .info(&request.info)
}

/// Whether nobody holds or awaits the name, by the value of [`STATE_FIELD`]; a state of another
/// release counts as in use.
pub(crate) fn is_idle(state: &[u8]) -> bool {
    match state {
        [RECORD_VERSION, flags, ..] => flags % 2 == 0 && state.len() == IDLE_STATE_BYTES,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_idle_unless_it_is_held_or_awaited_or_from_elsewhere() {
        let state = |flags: u8, length: usize| {
            let mut state = vec![0; length];
            (state[0], state[1]) = (RECORD_VERSION, flags);
            state
        };
        assert!(is_idle(&state(0, 20)));
        assert!(is_idle(&state(2, 20)), "only ended attempts are remembered");
        assert!(!is_idle(&state(1, 20)), "somebody waits");
        assert!(!is_idle(&state(0, 63)), "somebody holds");
        assert!(!is_idle(&state(0, 163)), "many hold");
        assert!(!is_idle(&[1, 0]), "another version");
        assert!(!is_idle(b""));
    }
}
