//! How locks stand on a server: the keys and channels, the scripts that touch them, and what the
//! replies mean. A layout knows no server and no store: it plans calls.

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
    /// The call that does one action to the lock of one name.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](leasehold_core::StoreErrorKind::Unsupported) for what it cannot express.
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError>;

    /// The call that renews many leases.
    fn renew(&self, leases: &[RenewLease]) -> Call<Answer>;

    /// The key of a lock.
    fn key(&self, name: &LockName) -> Vec<u8>;

    /// The lock whose key this is, or `None` if it can be no lock's.
    fn name(&self, key: &[u8]) -> Option<LockName>;

    /// The pattern for `SCAN … MATCH` that fits the keys of all locks whose name begins so.
    fn pattern(&self, begin: &str) -> Vec<u8>;

    /// The command that reads as much of a key's value as [`is_lock`](Self::is_lock) needs.
    fn peek(&self, key: &[u8]) -> Cmd;

    /// The channels to which other programs publish their releases, and subscribe.
    fn release_channels(&self, name: &LockName) -> Vec<Vec<u8>> {
        let _ = name;
        Vec::new()
    }

    /// Whether such a value is that of a lock: one in use, or with `idle` any.
    fn is_lock(&self, value: &[u8], idle: bool) -> bool;
}

/// Whether an answer says "yours" to anybody.
fn is_granted(answer: &Answer) -> bool {
    let is_grant = |reply: &Reply| matches!(reply, Reply::Granted(_));
    match &answer.reply {
        Reply::Many(replies) => replies.iter().any(is_grant),
        reply => is_grant(reply),
    }
}
