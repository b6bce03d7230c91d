//! Names on a server: SCAN in small steps, never KEYS.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{Answer, LockName, Now, Reply, StoreError};
use redis::{FromRedisValue, Value};

use super::connection::Link;
use super::error;
use super::key;
use super::plain::{self, MARK};
use super::reply;
use super::url::Format;
use super::wire::{STATE_FIELD, is_idle};

/// How many keys the server looks at in one step: well below a millisecond of its time.
const SCAN_COUNT: u32 = 500;

/// Which names are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing<'a> {
    pub(super) format: Format,
    /// What all keys begin with.
    pub(super) prefix: &'a str,
    /// What the names begin with.
    pub(super) begin: &'a str,
    /// At most so many.
    pub(super) limit: usize,
    /// Also names that nobody holds or awaits.
    pub(super) idle: bool,
}

/// The names that begin so: those held or awaited, or with `idle` all that are remembered. Which
/// of them come first, if there are more than `limit`, is up to the server.
///
/// Cost: two round trips for each 500 keys of the database, whosever they are.
pub(super) async fn list(
    primaries: &[Arc<Link>],
    listing: Listing<'_>,
) -> Result<Answer, StoreError> {
    let mut names = BTreeSet::new();
    let mut now = Now { lease_us: 0, token_us: 0 };
    for link in primaries {
        listing.scan(link, &mut names).await?;
        now = time(link).await?;
    }
    let names = names.into_iter().take(listing.limit).collect();
    Ok(Answer { now, more: false, reply: Reply::Names(names) })
}

impl Listing<'_> {
    /// Adds the names on one server, until there are enough.
    async fn scan(&self, link: &Link, names: &mut BTreeSet<LockName>) -> Result<(), StoreError> {
        let pattern = match self.format {
            Format::Native => key::pattern(self.prefix, self.begin),
            Format::Plain => plain::pattern(self.prefix, self.begin),
        };
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
            let (next, keys): (u64, Vec<Vec<u8>>) = read(link, "SCAN", link.ask(&scan).await?)?;
            let keys = keys.into_iter().filter_map(|key| Some((self.name(&key)?, key)));
            // A key may come twice.
            let new: Vec<_> = keys.filter(|(name, _)| !names.contains(name)).collect();
            names.extend(self.matching(link, new).await?);
            cursor = next;
            if cursor == 0 || names.len() >= self.limit {
                return Ok(());
            }
        }
    }

    fn name(&self, key: &[u8]) -> Option<LockName> {
        match self.format {
            Format::Native => key::name(self.prefix, key),
            Format::Plain => plain::name(self.prefix, key),
        }
    }

    async fn matching(
        &self,
        link: &Link,
        keys: Vec<(LockName, Vec<u8>)>,
    ) -> Result<Vec<LockName>, StoreError> {
        let mut looks = redis::pipe();
        for (_, key) in &keys {
            match self.format {
                Format::Native => looks.cmd("HGET").arg(key).arg(STATE_FIELD),
                Format::Plain => looks.cmd("GETRANGE").arg(key).arg(0).arg(MARK.len() - 1),
            };
        }
        let seen = link.ask_all(&looks).await?;
        let found = keys.into_iter().zip(seen).filter_map(|((name, _), seen)| {
            // A key of another type, or one that is gone by now, is no lock.
            let seen = Option::<Vec<u8>>::from_redis_value(seen).ok()??;
            let is_listed = match self.format {
                Format::Native => self.idle || !is_idle(&seen),
                // With a prefix all that is there are locks; without, the user's own data is.
                Format::Plain if self.prefix.is_empty() => seen == MARK.as_bytes(),
                Format::Plain => !seen.is_empty(),
            };
            is_listed.then_some(name)
        });
        Ok(found.collect())
    }
}

async fn time(link: &Link) -> Result<Now, StoreError> {
    let time = link.ask(&redis::cmd("TIME")).await?;
    reply::time(time).ok_or_else(|| error::nonsense(link.server(), "TIME"))
}

fn read<T: FromRedisValue>(link: &Link, command: &str, value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|_| error::nonsense(link.server(), command))
}
