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

/// The largest number of names that a search inspects: 10 000, which takes some seconds.
const SCAN_LIMIT: u32 = 10_000;

/// The number of names that are inspected at the same time: 32. That hides the round trips, and
/// leaves the store free for locking.
const SCAN_WIDTH: usize = 32;

/// The largest number of holders and waiters of one name that are read.
const LOOK_LIMIT: u32 = 1000;

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) deadlocks: Vec<Deadlock>,
    /// The names that were skipped, and why each record cannot be read.
    pub(crate) unreadable: Vec<(LockName, StoreError)>,
}

/// Finds clients that wait for each other, and inspects the names of each finding twice. One
/// inspection can show a deadlock that never existed, because names are inspected one after the
/// other.
///
/// # Errors
///
/// If the store does not answer, or has no queue.
pub(crate) async fn find(store: &dyn Store) -> Result<Found, StoreError> {
    if !store.capabilities().queued {
        let why = "this store has no queue, so nobody can see who waits for whom";
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    }
    look_at_all(store).await
}

/// Like [`find`], also for a store without a queue: there it only finds unreadable records.
///
/// # Errors
///
/// If the store does not answer.
pub(super) async fn look_at_all(store: &dyn Store) -> Result<Found, StoreError> {
    let list = Operation::List { prefix: String::new(), limit: SCAN_LIMIT };
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
