//! The common parts of the layouts that programs in other languages share.

use std::time::Duration;

use leasehold_core::{FencingToken, HolderId, LockName, Now, StoreError, StoreErrorKind};

/// The lock with this key. Nothing is escaped, because other programs escape nothing.
pub(super) fn name(prefix: &str, key: &[u8]) -> Option<LockName> {
    LockName::new(std::str::from_utf8(key).ok()?.strip_prefix(prefix)?).ok()
}

pub(super) fn flag(flag: bool) -> Vec<u8> {
    number(flag.into())
}

pub(super) fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

pub(super) fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// The message to a holder that an operator has revoked its lease.
pub(super) fn revoked(id: HolderId, force: bool) -> Vec<u8> {
    format!("R {id} {}", u8::from(force)).into_bytes()
}

/// A token, and the time of its grant (µs): `TIME`, or `COUNTER/TIME`.
pub(super) fn token(text: &str) -> Option<(FencingToken, u64)> {
    let (counter, since) = text.split_once('/').map_or((None, text), |(a, b)| (Some(a), b));
    let since_us = since.parse().ok()?;
    let token = match counter {
        Some(counter) => FencingToken::from_number(counter.parse().ok()?)?,
        None => FencingToken::from_micros(since_us),
    };
    Some((token, since_us))
}

/// The time until a key ends, from the answer to PEXPIRETIME; `None` if there is no end.
pub(super) fn ttl_left(end_ms: i64, now: Now) -> Option<Duration> {
    let end_us = u64::try_from(end_ms).ok()?.saturating_mul(1_000);
    Some(Duration::from_micros(end_us.saturating_sub(now.lease_us)))
}

/// The error for a request that the locks of a layout do not support.
pub(super) fn unsupported(name: &LockName, why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, format!("{name}: {why}"))
}
