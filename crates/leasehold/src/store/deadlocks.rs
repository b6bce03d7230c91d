//! Deadlocks among the names of a store.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::join_all;
use leasehold_core::{
    Action, Deadlock, Error, LockName, Obstacle, Operation, Reply, Result, Snapshot, Status,
    StoreError, StoreErrorKind, deadlocks,
};

use super::finding::Finding;
use super::traits::Store;

/// Most names that are looked at: 10 000, some seconds of questions.
const SCAN_LIMIT: u32 = 10_000;

/// How many names are asked for at the same time: 32, which hides the round trips and leaves the
/// store to those who lock.
const SCAN_WIDTH: usize = 32;

/// Most holders and waiters of one name that are looked at.
const LOOK_LIMIT: u32 = 1000;

/// What findings are about.
const TOPIC: &str = "deadlocks";

/// What could happen, in the words of a finding.
const RISK: &str = "who waits for each other waits for ever, because what they hold is renewed";

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

/// What an examination says of it.
pub(super) async fn findings(place: &str, store: Result<Box<dyn Store>>) -> Vec<Finding> {
    let found = match store {
        Ok(store) => find(&*store).await.map_err(Error::from),
        Err(error) => Err(error),
    };
    match found {
        Ok(found) if found.is_empty() => {
            vec![Finding::ok(place, TOPIC, "no deadlock among those who wait")]
        }
        Ok(found) => found.iter().map(|deadlock| finding(place, deadlock)).collect(),
        Err(error) => {
            let found = format!("deadlocks could not be looked for: {error}");
            let remedy = "mend what is wrong with the store, and snapshot again";
            vec![Finding::warning(place, TOPIC, found, RISK, remedy)]
        }
    }
}

/// It is not known whether there are any, and nothing is wrong with that.
pub(super) fn not_looked_for(place: &str, why: &str) -> Finding {
    Finding::ok(place, TOPIC, format!("deadlocks cannot be looked for: {why}"))
}

fn finding(place: &str, deadlock: &Deadlock) -> Finding {
    let found = format!("probably a deadlock: {deadlock}");
    let holders = deadlock.waits.iter().filter_map(|wait| match &wait.obstacle {
        Obstacle::Holder(holder) => Some((&wait.name, holder.token)),
        _ => None,
    });
    let revoke = holders.map(|(name, token)| format!("`leasehold revoke {name} --token {token}`"));
    let revoke = revoke.collect::<Vec<_>>().join(" or ");
    let remedy = format!(
        "end one of them: {revoke}; and for the next time take the names in one call, which cannot \
         deadlock (`leasehold run A B`, `client.multi`), or bound the wait (`--wait`)"
    );
    Finding::warning(place, TOPIC, found, RISK, remedy)
}
