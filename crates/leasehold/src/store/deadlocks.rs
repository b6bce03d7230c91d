//! Deadlocks among the names of a store.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::join_all;
use leasehold_core::{
    Action, Deadlock, LockName, Operation, Reply, Snapshot, Status, StoreError, StoreErrorKind,
    deadlocks,
};

use super::traits::Store;

/// Most names that are looked at: 10 000, some seconds of questions.
const SCAN_LIMIT: u32 = 10_000;

/// How many names are asked for at the same time: 32, which hides the round trips and leaves the
/// store to those who lock.
const SCAN_WIDTH: usize = 32;

/// Most holders and waiters of one name that are looked at.
const LOOK_LIMIT: u32 = 1000;

/// Who waits for each other, by two looks: what the first finds is looked at again, so that nobody
/// is suspected who only seemed to wait because one name was looked at after the other.
pub(crate) async fn find(store: &dyn Store) -> Result<Vec<Deadlock>, StoreError> {
    if !store.capabilities().queued {
        let why = "this store has no queue, so nobody can see who waits for whom";
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    }
    let list = Operation::List { prefix: String::new(), limit: SCAN_LIMIT, idle: false };
    let names = match store.execute(list).await?.reply {
        Reply::Names(names) => names,
        other => return Err(unexpected(&other)),
    };
    let suspected = among(store, names).await?;
    if suspected.is_empty() {
        return Ok(suspected);
    }
    let waits = suspected.into_iter().flat_map(|deadlock| deadlock.waits);
    among(store, waits.map(|wait| wait.name).collect::<BTreeSet<_>>()).await
}

async fn among(
    store: &dyn Store,
    names: impl IntoIterator<Item = LockName>,
) -> Result<Vec<Deadlock>, StoreError> {
    let names: Vec<LockName> = names.into_iter().collect();
    let mut seen = Vec::with_capacity(names.len());
    for some in names.chunks(SCAN_WIDTH) {
        for status in join_all(some.iter().map(|name| inspect(store, name))).await {
            seen.push((status?, Instant::now()));
        }
    }
    let snapshots = names.iter().zip(&seen);
    let snapshots =
        snapshots.map(|(name, (status, at))| Snapshot { name, status, age: at.elapsed() });
    Ok(deadlocks(&snapshots.collect::<Vec<_>>()))
}

async fn inspect(store: &dyn Store, name: &LockName) -> Result<Status, StoreError> {
    let action = Action::Inspect { limit: LOOK_LIMIT };
    match store.execute(Operation::On { name: name.clone(), action }).await?.reply {
        Reply::Status(status) => Ok(*status),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> StoreError {
    let why = format!("unexpected reply {reply:?}");
    StoreError::new(StoreErrorKind::Corrupt, why)
}
