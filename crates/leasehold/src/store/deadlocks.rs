//! Deadlocks among the names of a store.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::join_all;
use leasehold_core::{
    Action, Deadlock, LockName, Mode, Operation, Reply, Snapshot, Status, StoreError,
    StoreErrorKind, deadlocks,
};

use super::traits::Store;
use crate::replies::{refused, unexpected_reply};

/// The most names that are looked at: 10 000, some seconds of questions.
const SCAN_LIMIT: u32 = 10_000;

/// How many names are asked for at the same time: 32, which hides the round trips and leaves the
/// store to those who lock.
const SCAN_WIDTH: usize = 32;

/// The most holders and waiters of one name that are looked at.
const LOOK_LIMIT: u32 = 1000;

/// What a search finds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) deadlocks: Vec<Deadlock>,
    /// The names that were passed over, and why each cannot be read.
    pub(crate) unreadable: Vec<(LockName, StoreError)>,
}

/// Finds clients that wait for each other, by two looks at each finding. With one look, a client
/// could only seem to wait, because names are looked at one after the other.
///
/// # Errors
///
/// When the store does not answer, or has no queue.
pub(crate) async fn find(store: &dyn Store) -> Result<Found, StoreError> {
    if !store.capabilities().queued {
        let why = "this store has no queue, so nobody can see who waits for whom";
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    }
    look_at_all(store).await
}

/// The same where nobody may be seen to wait: then it finds what cannot be read.
///
/// # Errors
///
/// When the store does not answer.
pub(super) async fn look_at_all(store: &dyn Store) -> Result<Found, StoreError> {
    let list = Operation::List { prefix: String::new(), limit: SCAN_LIMIT, idle: false };
    let names = match store.execute(list).await?.reply {
        Reply::Names(names) => names,
        other => return Err(unexpected_reply(&other)),
    };
    let suspected = among(store, names).await?;
    if suspected.deadlocks.is_empty() {
        return Ok(suspected);
    }
    let waits = suspected.deadlocks.into_iter().flat_map(|deadlock| deadlock.waits);
    let again = among(store, waits.map(|wait| wait.name).collect::<BTreeSet<_>>()).await?;
    Ok(Found { deadlocks: again.deadlocks, unreadable: suspected.unreadable })
}

async fn among(
    store: &dyn Store,
    names: impl IntoIterator<Item = LockName>,
) -> Result<Found, StoreError> {
    let names: Vec<LockName> = names.into_iter().collect();
    let (mut seen, mut unreadable) = (Vec::with_capacity(names.len()), Vec::new());
    for some in names.chunks(SCAN_WIDTH) {
        let looks = join_all(some.iter().map(|name| inspect(store, name))).await;
        for (name, look) in some.iter().zip(looks) {
            match look {
                Ok(status) => seen.push((name, status, Instant::now())),
                Err(error) if error.kind().is_outage() => return Err(error),
                Err(error) => unreadable.push((name.clone(), error)),
            }
        }
    }
    let snapshots = seen.iter();
    let snapshots =
        snapshots.map(|(name, status, at)| Snapshot { name, status, age: at.elapsed() });
    Ok(Found { deadlocks: deadlocks(&snapshots.collect::<Vec<_>>()), unreadable })
}

async fn inspect(store: &dyn Store, name: &LockName) -> Result<Status, StoreError> {
    let action = Action::Inspect { limit: LOOK_LIMIT };
    match store.execute(Operation::On { name: name.clone(), action }).await?.reply {
        Reply::Status(status) => Ok(*status),
        Reply::Refused(refusal) => Err(refused(name, Mode::Exclusive, refusal)),
        other => Err(unexpected_reply(&other)),
    }
}
