//! Why a store would not consider a request, in words, with the remedy.

use leasehold_core::{LOCK_CAPACITY, LockName, Mode, Refusal, Reply, StoreError, StoreErrorKind};

/// What a refusal of a request for this means.
pub(crate) fn refused(name: &LockName, mode: Mode, refusal: Refusal) -> StoreError {
    let (kind, why) = match refusal {
        Refusal::Ballot => (
            StoreErrorKind::Unsupported,
            "the token that was proposed is far ahead of the store's clock: set the clocks right"
                .to_owned(),
        ),
        Refusal::Mismatch { capacity: LOCK_CAPACITY } => (
            StoreErrorKind::Mismatch,
            "the name is in use as a mutex or read/write lock: use another name".to_owned(),
        ),
        Refusal::Mismatch { capacity } => (
            StoreErrorKind::Mismatch,
            match mode {
                Mode::Permits { .. } => format!(
                    "the name is in use as a semaphore of {capacity}, and {} were asked for: wait \
                     for it, set its capacity (`leasehold permits NAME N`), or use the same \
                     capacity everywhere",
                    asked_for(mode)
                ),
                _ => format!("the name is in use as a semaphore of {capacity}: use another name"),
            },
        ),
        Refusal::QueueFull => {
            (StoreErrorKind::Full, "the queue for the name is full: try later".to_owned())
        }
        Refusal::Weight => {
            (StoreErrorKind::Unsupported, format!("{} can never be granted", asked_for(mode)))
        }
        Refusal::Damaged => (
            StoreErrorKind::Corrupt,
            "the name's record is damaged: `leasehold doctor` says how to mend it".to_owned(),
        ),
        Refusal::Version { found } => (
            StoreErrorKind::Version,
            format!(
                "the name's record has version {found}: use one release of leasehold everywhere"
            ),
        ),
        _ => (
            StoreErrorKind::Unsupported,
            "the store refuses the request for a reason of a later release of leasehold".to_owned(),
        ),
    };
    StoreError::new(kind, format!("{name}: {why}"))
}

/// What a refusal means whatever was asked for, if it does: the record cannot be read.
pub(crate) fn unreadable(name: &LockName, reply: &Reply) -> Option<StoreError> {
    match reply {
        Reply::Refused(refusal @ (Refusal::Damaged | Refusal::Version { .. })) => {
            Some(refused(name, Mode::Exclusive, *refusal))
        }
        _ => None,
    }
}

/// Why a request waits that asks for another capacity than the one in force.
pub(crate) fn waits_for_capacity(name: &LockName, mode: Mode, capacity: u32) -> String {
    format!(
        "{name}: the name is in use as a semaphore of {capacity}, and {} were asked for: they are \
         granted once nobody holds it; to have them sooner, set its capacity (`leasehold \
         permits NAME N`)",
        asked_for(mode)
    )
}

fn asked_for(mode: Mode) -> String {
    match mode {
        Mode::Permits { count, capacity } => format!("{count} of {capacity} permits"),
        Mode::Shared => "a shared lease".to_owned(),
        Mode::Upgradable => "an upgradable read lease".to_owned(),
        _ => "an exclusive lease".to_owned(),
    }
}
