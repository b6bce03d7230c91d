//! What answers of the store mean for a lease.

use leasehold_core::{
    FencingToken, Grant, LockName, LossReason, Mode, Reply, StoreError, StoreErrorKind,
};

use crate::refusal::refused;

/// What a reply to a renewal means for a lease with this token; `None` for a reply to something
/// else.
pub(crate) fn renewal_outcome(
    reply: &Reply,
    token: FencingToken,
) -> Option<Result<Grant, LossReason>> {
    match reply {
        Reply::Granted(grant) => Some(Ok(*grant)),
        Reply::NotHeld { newest } => Some(Err(match newest {
            Some(by) if by.micros() > token.micros() => LossReason::Superseded { by: *by },
            Some(newest) if newest.micros() == token.micros() => LossReason::Expired,
            Some(_) | None => LossReason::Vanished,
        })),
        Reply::Revoked(_) => Some(Err(LossReason::Revoked)),
        _ => None,
    }
}

/// Whether a request that was refused may succeed later: the trouble passes by itself, or an
/// operator gives back the rights.
pub(super) fn may_pass(kind: StoreErrorKind) -> bool {
    kind.is_transient() || kind == StoreErrorKind::Denied
}

/// The error for an answer that does not belong to its question.
pub(crate) fn unexpected_reply(reply: &Reply) -> StoreError {
    let message = format!("the store's answer does not belong to the question: {reply:?}");
    StoreError::new(StoreErrorKind::Corrupt, message)
}

/// The error for an answer that does not belong to its question, or that says why the record of the
/// name cannot be read.
pub(crate) fn unusable_reply(name: &LockName, reply: &Reply) -> StoreError {
    match reply {
        Reply::Refused(refusal) => refused(name, Mode::Exclusive, *refusal),
        other => unexpected_reply(other),
    }
}

/// The notice that is published of a name when a lease on it has ended.
pub(crate) fn end_notice(token: FencingToken) -> String {
    format!("left {token}")
}
