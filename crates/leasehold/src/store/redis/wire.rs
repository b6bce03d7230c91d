//! What a script is called with: an action as a key and two arguments, the second of which packs
//! all there is to say, because a script reads that in a third of the time it takes for each value
//! as an argument of its own. What is packed, and how, stands at the head of each script.

use std::time::Duration;

use leasehold_core::{
    Acquire, Action, Adopt, Answer, FencingToken, LockName, Mode, Reclaim, RenewLease, StoreError,
};
use redis::{Cmd, Value};

use super::key;
use super::packed::Writer;
use super::reply;
use super::script::Script;

/// The field of a lock's hash that tells whether the lock is idle.
pub const STATE_FIELD: &str = "s";

/// The version of a record, its state's first byte. A record of another one is left alone.
pub const RECORD_VERSION: u8 = 2;

/// Bytes of the state of a record that nobody holds: `<BBI4dd`.
const IDLE_STATE_BYTES: usize = 22;

/// Where the locks of one store are kept on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What all keys and channels begin with.
    pub prefix: String,
    /// How long a record outlives its last use.
    pub retention: Duration,
}

/// One call of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which script.
    pub script: Script,
    /// Its keys, each that of a lock.
    pub keys: Vec<Vec<u8>>,
    /// Its other arguments.
    pub args: Vec<Vec<u8>>,
    /// The reply is one of many, even if there is only one.
    is_batch: bool,
}

impl Call {
    /// The call that does one action to the record of one name.
    pub fn on(layout: &Layout, name: &LockName, action: &Action) -> Self {
        let script = match action {
            Action::Acquire(_) => Script::Acquire,
            Action::Adopt(_) => Script::Adopt,
            Action::Cancel { .. } => Script::Cancel,
            Action::ChangeMode { .. } => Script::ChangeMode,
            Action::Commit { .. } => Script::Commit,
            Action::Describe { .. } => Script::Describe,
            Action::Inspect { .. } => Script::Inspect,
            Action::Poll { .. } => Script::Poll,
            Action::Reclaim(_) => Script::Reclaim,
            Action::Release { .. } => Script::Release,
            Action::Renew { .. } => Script::Renew,
            Action::Revoke { .. } => Script::Revoke,
        };
        let packed = pack_action(Writer::default().span(layout.retention), action);
        Self {
            script,
            keys: vec![key::key(&layout.prefix, name)],
            args: vec![key::inbox_prefix(&layout.prefix).into_bytes(), packed.0],
            is_batch: false,
        }
    }

    /// The call that renews many leases.
    pub fn renew(layout: &Layout, leases: &[RenewLease]) -> Self {
        let packed =
            leases.iter().fold(Writer::default().span(layout.retention), |packed, lease| {
                pack_renewal(packed.id(lease.id).span(lease.ttl), lease.mode, lease.change)
            });
        Self {
            script: Script::Renew,
            keys: leases.iter().map(|lease| key::key(&layout.prefix, &lease.name)).collect(),
            args: vec![key::inbox_prefix(&layout.prefix).into_bytes(), packed.0],
            is_batch: true,
        }
    }

    /// The command that makes the call.
    pub(super) fn command(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script.sha1()).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }

    /// A call with these keys and arguments and nothing else.
    pub(super) fn bare(script: Script, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>>) -> Self {
        Self { script, keys, args, is_batch: false }
    }

    /// The same for many keys, with a reply for each.
    pub(super) fn batch(script: Script, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>>) -> Self {
        Self { script, keys, args, is_batch: true }
    }

    /// The answer that a reply to this call stands for.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](leasehold_core::StoreErrorKind::Corrupt) if the record is damaged, which is then
    /// left as it is, or if the reply is none of our scripts'.
    pub fn answer(&self, reply: Value) -> Result<Answer, StoreError> {
        reply::answer(&reply, self.is_batch)
    }
}

fn pack_action(packed: Writer, action: &Action) -> Writer {
    match action {
        Action::Acquire(request) => pack_acquire(packed, request),
        Action::Adopt(request) => pack_adopt(packed, request),
        Action::Cancel { id, unanswered } => packed.id(*id).flag(*unanswered),
        Action::ChangeMode { id, mode, change } => {
            packed.id(*id).number(*change).byte(match mode {
                Mode::Exclusive => b'E',
                Mode::Permits { .. } => b'P',
                Mode::Shared => b'S',
            })
        }
        Action::Commit { id, token, ttl } => packed.id(*id).number(token.us()).span(*ttl),
        Action::Describe { id, facts } => packed.id(*id).facts(facts),
        Action::Inspect { limit } => packed.word(*limit),
        Action::Poll { id, ttl } => packed.id(*id).span(*ttl),
        Action::Reclaim(request) => pack_reclaim(packed, request),
        Action::Release { id, keep, unanswered } => packed.id(*id).span(*keep).flag(*unanswered),
        Action::Renew { id, ttl, mode, change } => {
            pack_renewal(packed.id(*id).span(*ttl), *mode, *change)
        }
        Action::Revoke { id, token, force } => {
            packed.id(*id).number(token.us()).bytes(&token.get().to_be_bytes()).flag(*force)
        }
    }
}

/// What a holder believes of its hold.
fn pack_renewal(packed: Writer, mode: Mode, change: u64) -> Writer {
    packed.word(mode.weight()).number(change)
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
        .facts(&request.facts)
}

fn pack_adopt(packed: Writer, request: &Adopt) -> Writer {
    packed
        .id(request.id)
        .id(request.from)
        .word(request.mode.weight())
        .word(request.mode.capacity())
        .number(request.token.map_or(0, FencingToken::us))
        .span(request.ttl)
        .bytes(&request.nonce.to_be_bytes())
        .number(request.not_after_us)
        .number(request.ballot_us.map_or(0, |ballot_us| ballot_us.max(1)))
        .facts(&request.facts)
}

fn pack_reclaim(packed: Writer, request: &Reclaim) -> Writer {
    packed
        .id(request.id)
        .word(request.mode.weight())
        .word(request.mode.capacity())
        .number(request.change)
        .number(request.token.us())
        .span(request.ttl)
        .bytes(&request.nonce.to_be_bytes())
        .number(request.not_after_us)
        .facts(&request.facts)
}

/// Whether nobody holds or awaits the name, by the value of [`STATE_FIELD`]; a state of another
/// release counts as in use.
pub fn is_idle(state: &[u8]) -> bool {
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
        assert!(is_idle(&state(0, 22)));
        assert!(is_idle(&state(2, 22)), "only ended attempts are remembered");
        assert!(!is_idle(&state(1, 22)), "somebody waits");
        assert!(!is_idle(&state(0, 151)), "somebody holds");
        assert!(!is_idle(&[1, 0]), "another version");
        assert!(!is_idle(b""));
    }
}
