//! The common parts of the layouts that programs in other languages share: the form of arguments,
//! and the meaning of replies if actions share a script.

use std::time::Duration;

use leasehold_core::time::micros;
use leasehold_core::{Answer, Cancelled, FencingToken, HolderId, LockName, Reply, StoreError};
use redis::Value;

use super::codec::{MAX_EXACT, Writer};
use super::reply;

/// The lock with this key. Nothing is escaped, because other programs escape nothing.
pub(super) fn name(prefix: &str, key: &[u8]) -> Option<LockName> {
    LockName::new(std::str::from_utf8(key).ok()?.strip_prefix(prefix)?).ok()
}

pub(super) fn flag(flag: bool) -> Vec<u8> {
    number(flag.into())
}

pub(super) fn number(number: u64) -> Vec<u8> {
    number.min(MAX_EXACT).to_string().into_bytes()
}

pub(super) fn span(span: Duration) -> Vec<u8> {
    number(micros(span))
}

/// The message to a holder that an operator has revoked its lease. It has no nonce, because the
/// layout stores none.
pub(super) fn revoked(id: HolderId, token: FencingToken, force: bool) -> Vec<u8> {
    let message = Writer::default().byte(b'R').number(id.attempt).bytes(&[0; 8]);
    message.bytes(&token.get().to_be_bytes()).flag(force).0
}

/// The answer to a cancel, which is sent as a release.
pub(super) fn cancelled(value: Value) -> Result<Answer, StoreError> {
    map(value, |reply| match reply {
        Reply::Released => Reply::Cancelled(Cancelled::Released),
        Reply::NotHeld { .. } => Reply::Cancelled(Cancelled::Unknown),
        reply => reply,
    })
}

/// The answer to a poll, which is sent as a renewal.
pub(super) fn polled(value: Value) -> Result<Answer, StoreError> {
    map(value, |reply| match reply {
        Reply::NotHeld { .. } | Reply::Revoked(_) => Reply::Gone,
        reply => reply,
    })
}

pub(super) fn map(value: Value, meaning: fn(Reply) -> Reply) -> Result<Answer, StoreError> {
    let mut answer = reply::one(value)?;
    answer.reply = meaning(answer.reply);
    Ok(answer)
}
