//! Turns the replies of a store into the outcome for a lease, or into an error with the remedy.

use leasehold_core::{
    FencingToken, LOCK_CAPACITY, LockName, LossReason, Mode, Refusal, Reply, StoreError,
    StoreErrorKind,
};

/// The outcome of a request to keep a lease, or to take it back or over; `None` if the outcome is
/// unknown, or if the reply answers another request.
pub(crate) fn outcome(reply: &Reply) -> Option<Result<(), LossReason>> {
    match reply {
        Reply::Granted(_) | Reply::Kept { .. } => Some(Ok(())),
        Reply::Closed | Reply::NotHeld => Some(Err(LossReason::Vanished)),
        Reply::Revoked => Some(Err(LossReason::Revoked)),
        _ => None,
    }
}

/// The error if the store refuses a request for this name and mode.
pub(crate) fn refused(name: &LockName, mode: Mode, refusal: Refusal) -> StoreError {
    let kind = match refusal {
        Refusal::Mismatch { .. } => StoreErrorKind::Mismatch,
        Refusal::QueueFull => StoreErrorKind::Full,
        Refusal::Damaged => StoreErrorKind::Corrupt,
        Refusal::Version { .. } => StoreErrorKind::Version,
        _ => StoreErrorKind::Unsupported,
    };
    let why = match refusal {
        Refusal::Ballot => {
            "the token that was proposed is far ahead of the store's clock: set the clocks right"
        }
        Refusal::Mismatch { capacity: LOCK_CAPACITY } => {
            "the name is in use as a mutex or read/write lock: use another name"
        }
        Refusal::Mismatch { capacity } => match mode {
            Mode::Permits { .. } => &format!(
                "the name is in use as a semaphore of {capacity}, and {} were asked for: wait for \
                 it, or use the same capacity everywhere",
                asked_for(mode)
            ),
            _ => &format!("the name is in use as a semaphore of {capacity}: use another name"),
        },
        Refusal::QueueFull => "the queue for the name is full: try later",
        Refusal::Weight => &format!("{} can never be granted", asked_for(mode)),
        Refusal::Damaged => "the name's record is damaged: `leasehold doctor` says how to mend it",
        Refusal::Version { found } => &format!(
            "the name's record has version {found}: use one release of leasehold everywhere"
        ),
        _ => "the store refuses the request for a reason of a later release of leasehold",
    };
    StoreError::new(kind, format!("{name}: {why}"))
}

/// The error for a record that cannot be read, whatever the request was; `None` for other replies.
pub(crate) fn unreadable(name: &LockName, reply: &Reply) -> Option<StoreError> {
    match reply {
        Reply::Refused(refusal @ (Refusal::Damaged | Refusal::Version { .. })) => {
            Some(refused(name, Mode::Exclusive, *refusal))
        }
        _ => None,
    }
}

/// The reason why a request for another capacity than the one in force waits.
pub(crate) fn waits_for_capacity(name: &LockName, mode: Mode, capacity: u32) -> StoreError {
    let why = format!(
        "{name}: the name is in use as a semaphore of {capacity}, and {} were asked for: they are \
         granted once nobody holds it",
        asked_for(mode)
    );
    StoreError::new(StoreErrorKind::Mismatch, why)
}

fn asked_for(mode: Mode) -> String {
    match mode {
        Mode::Permits { count, capacity } => format!("{count} of {capacity} permits"),
        Mode::Shared => "a shared lease".to_owned(),
        _ => "an exclusive lease".to_owned(),
    }
}

/// Whether a request that was refused may succeed later: the trouble passes by itself, or an
/// operator gives back the rights.
pub(crate) fn may_pass(kind: StoreErrorKind) -> bool {
    kind.is_transient() || kind == StoreErrorKind::Denied
}

/// The error for a reply that does not fit the request.
pub(crate) fn unexpected_reply(reply: &Reply) -> StoreError {
    let message = format!("the store's answer does not belong to the question: {reply:?}");
    StoreError::new(StoreErrorKind::Corrupt, message)
}

/// The error for a reply that does not fit the request, or that says why the record of the name
/// cannot be read. The reply to a renewal may also say that the outcome is unknown.
pub(crate) fn unusable_reply(name: &LockName, reply: &Reply) -> StoreError {
    match reply {
        Reply::Busy { .. } => {
            let why = format!(
                "{name}: its server, or a majority of the nodes, refused or did not answer"
            );
            StoreError::new(StoreErrorKind::Unreachable, why).maybe_executed()
        }
        Reply::Refused(refusal) => refused(name, Mode::Exclusive, *refusal),
        other => unexpected_reply(other),
    }
}

/// The message that is published under a name when a lease on it has ended.
pub(crate) fn end_notice(token: FencingToken) -> String {
    format!("left {token}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_renewal_without_an_outcome_is_an_outage_of_its_own_name() {
        let name = LockName::new("a").unwrap();
        let none = Reply::Busy { retry_after: Duration::ZERO };
        assert!(outcome(&none).is_none());
        let error = unusable_reply(&name, &none);
        assert!(error.kind().is_outage() && error.may_have_executed());
        assert!(error.to_string().starts_with("a: "), "{error}");
    }
}
