//! The layout of locks on a server: the keys and channels, the scripts that use them, and the
//! meaning of the replies. A layout only plans calls; it needs no server and no store.

pub mod key;
pub(crate) mod native;
pub(crate) mod plain;
pub(crate) mod redisson;
pub(crate) mod reply;
pub(crate) mod script;
mod shared;
pub(crate) mod slot;

use std::fmt;
use std::time::Duration;

use leasehold_core::{Action, Answer, End, FencingToken, Keep, LockName, Reply, StoreError, Take};
use redis::Cmd;

use super::connection::call::{Call, Effect};

/// One layout, for one prefix.
pub trait Layout: fmt::Debug + Send + Sync {
    /// The call that applies one action to the lock of a name.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](leasehold_core::StoreErrorKind::Unsupported) for an action that the layout
    /// cannot express.
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError>;

    /// The call that keeps many leases.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](leasehold_core::StoreErrorKind::Unsupported) for a ttl that the layout
    /// cannot give to one of them.
    fn keep(&self, leases: &[(LockName, Keep)]) -> Result<Call<Answer>, StoreError>;

    /// The call that sets the value of a free name, if that takes it.
    fn set(&self, _name: &LockName, _take: &Take) -> Option<Call<Set>> {
        None
    }

    /// The call that draws a number for a name that was set without one.
    fn draw(&self, _name: &LockName) -> Option<Call<Set>> {
        None
    }

    /// The call that ends a hold by the key of its gate alone, if nobody waits. While a slot moves,
    /// a call with more keys is refused.
    fn end_alone(&self, _name: &LockName, _end: &End) -> Option<Call<bool>> {
        None
    }

    /// The key of a lock.
    fn key(&self, name: &LockName) -> Vec<u8>;

    /// The lock with this key, or with this key beside it; `None` if no lock can have it.
    fn name(&self, key: &[u8]) -> Option<LockName>;

    /// The pattern for `SCAN … MATCH` that matches the keys of all locks whose name begins with
    /// `begin`.
    fn pattern(&self, begin: &str) -> Vec<u8>;

    /// The command that reads as much of a key's value as [`is_lock`](Self::is_lock) needs.
    fn peek(&self, key: &[u8]) -> Cmd;

    /// The channels to which other programs subscribe, and publish their releases.
    fn release_channels(&self, _name: &LockName) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Whether a value that `peek` read at this time belongs to a lock that is in use. The value is
    /// empty if the key has another type.
    fn is_lock(&self, value: &[u8], now_us: u64) -> bool;
}

/// What became of a name that was to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// It was set, and has this token.
    Numbered(FencingToken),
    /// It has a value already.
    Taken,
    /// It was set, but no number was drawn.
    Unnumbered,
}

/// Whether an answer grants anything.
fn is_granted(answer: &Answer) -> bool {
    let is_grant = |reply: &Reply| matches!(reply, Reply::Granted(_) | Reply::Kept { .. });
    match &answer.reply {
        Reply::Many(replies) => replies.iter().any(is_grant),
        reply => is_grant(reply),
    }
}

/// The effect that the reply to an action may have for its caller.
fn effect(action: &Action) -> Option<Effect> {
    match action {
        Action::Keep(_) => Some(Effect::Renewal),
        Action::Take(Take { claim: Some(_), .. }) => Some(Effect::Reclaim),
        Action::Take(Take { place: Some(_), .. }) => Some(Effect::HandOver),
        Action::Take(_) => Some(Effect::Grant),
        _ => None,
    }
}

/// A span in milliseconds, of which none is lost.
fn millis(span: Duration) -> u64 {
    let part = u64::from(span.subsec_micros().div_ceil(1_000));
    span.as_secs().saturating_mul(1_000).saturating_add(part).min(script::MAX_SPAN_MS)
}
