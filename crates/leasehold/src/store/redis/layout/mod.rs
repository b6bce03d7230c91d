//! The layout of locks on a server: the keys and channels, the scripts that use them, and the
//! meaning of the replies. A layout only plans calls; it needs no server and no store.

pub(crate) mod boot_key;
pub(crate) mod codec;
pub mod key;
pub(crate) mod native;
pub(crate) mod plain;
pub(crate) mod redisson;
pub(crate) mod reply;
pub(crate) mod script;
mod shared;
pub(crate) mod slot;

use std::fmt;

use leasehold_core::{Action, Answer, LockName, RenewLease, Reply, StoreError};
use redis::Cmd;

use super::connection::call::Call;

/// One layout, for one prefix.
pub trait Layout: fmt::Debug + Send + Sync {
    /// The call that applies one action to the lock of a name.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](leasehold_core::StoreErrorKind::Unsupported) for an action that the layout
    /// cannot express.
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError>;

    /// The call that renews many leases.
    fn renew(&self, leases: &[RenewLease]) -> Call<Answer>;

    /// The key of a lock.
    fn key(&self, name: &LockName) -> Vec<u8>;

    /// The lock with this key, or `None` if no lock can have it.
    fn name(&self, key: &[u8]) -> Option<LockName>;

    /// The pattern for `SCAN … MATCH` that matches the keys of all locks whose name begins with
    /// `begin`.
    fn pattern(&self, begin: &str) -> Vec<u8>;

    /// The command that reads as much of a key's value as [`is_lock`](Self::is_lock) needs.
    fn peek(&self, key: &[u8]) -> Cmd;

    /// The channels to which other programs subscribe, and publish their releases.
    fn release_channels(&self, name: &LockName) -> Vec<Vec<u8>> {
        let _ = name;
        Vec::new()
    }

    /// Whether a value that `peek` read belongs to a lock that is in use.
    fn is_lock(&self, value: &[u8]) -> bool;
}

/// Whether an answer grants anything.
fn is_granted(answer: &Answer) -> bool {
    let is_grant = |reply: &Reply| matches!(reply, Reply::Granted(_));
    match &answer.reply {
        Reply::Many(replies) => replies.iter().any(is_grant),
        reply => is_grant(reply),
    }
}
