//! Names on a server: SCAN in small steps, never KEYS.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{Answer, LockName, Now, Reply, StoreError};
use redis::{FromRedisValue, Value};

use super::connection::Link;
use super::error;
use super::key;
use super::wire::{Layout, STATE_FIELD, is_idle};

/// How many keys the server looks at in one step: well below a millisecond of its time.
const SCAN_COUNT: u32 = 500;

/// The names that begin so: those held or awaited, or with `idle` all that are remembered. Which
/// of them come first, if there are more than `limit`, is up to the server.
///
/// Cost: two round trips for each 500 keys of the database, whosever they are.
pub(super) async fn list(
    primaries: &[Arc<Link>],
    layout: &Layout,
    begin: &str,
    limit: u32,
    idle: bool,
) -> Result<Answer, StoreError> {
    let pattern = key::pattern(&layout.prefix, begin);
    let limit = limit as usize;
    let mut names = BTreeSet::new();
    let mut now = Now { lease_us: 0, token_us: 0 };
    for link in primaries {
        scan(link, &layout.prefix, &pattern, limit, idle, &mut names).await?;
        now = time(link).await?;
    }
    let names = names.into_iter().take(limit).collect();
    Ok(Answer { now, more: false, reply: Reply::Names(names) })
}

/// Adds the names on one server, until there are enough.
async fn scan(
    link: &Link,
    prefix: &str,
    pattern: &[u8],
    limit: usize,
    idle: bool,
    names: &mut BTreeSet<LockName>,
) -> Result<(), StoreError> {
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
        let (next, keys): (u64, Vec<Vec<u8>>) = read(link, "SCAN", link.ask(&scan).await?)?;
        // A key may come twice.
        let keys = keys.into_iter().filter_map(|key| Some((key::name(prefix, &key)?, key)));
        let new: Vec<_> = keys.filter(|(name, _)| !names.contains(name)).collect();
        names.extend(matching(link, new, idle).await?);
        cursor = next;
        if cursor == 0 || names.len() >= limit {
            return Ok(());
        }
    }
}

async fn matching(
    link: &Link,
    keys: Vec<(LockName, Vec<u8>)>,
    idle: bool,
) -> Result<Vec<LockName>, StoreError> {
    let mut states = redis::pipe();
    for (_, key) in &keys {
        states.cmd("HGET").arg(key).arg(STATE_FIELD);
    }
    let states = link.ask_all(&states).await?;
    let found = keys.into_iter().zip(states).filter_map(|((name, _), state)| {
        // A key of another type, or one that is gone by now, is no lock.
        let state = Option::<Vec<u8>>::from_redis_value(state).ok()??;
        (idle || !is_idle(&state)).then_some(name)
    });
    Ok(found.collect())
}

async fn time(link: &Link) -> Result<Now, StoreError> {
    let (seconds, micros): (u64, u64) = read(link, "TIME", link.ask(&redis::cmd("TIME")).await?)?;
    let now_us = seconds * 1_000_000 + micros;
    Ok(Now { lease_us: now_us, token_us: now_us })
}

fn read<T: FromRedisValue>(link: &Link, command: &str, value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|_| error::nonsense(link.server(), command))
}
