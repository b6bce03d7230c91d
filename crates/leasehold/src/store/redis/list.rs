//! Lists the names on a server, with SCAN in small steps and never with KEYS.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{Answer, LockName, Now, Page, Reply, StoreError, StoreErrorKind};
use redis::{Cmd, FromRedisValue, Value};

use super::connection::{Connection, error};
use super::durability::Server;
use super::layout::{Layout, reply};

/// The number of keys that the server visits in one step, which takes well below a millisecond.
const SCAN_COUNT: u32 = 500;

/// Keys of locks, each with the name of the lock.
type NamedKeys = Vec<(LockName, Vec<u8>)>;

/// The request for a list or a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing<'a> {
    pub(crate) layout: &'a dyn Layout,
    /// The beginning of the names.
    pub(crate) begin: &'a str,
    /// The largest number of names in a list; for a page, the number of keys to scan.
    pub(crate) limit: usize,
}

/// The held or awaited names that begin with `begin`. If there are more than `limit`, the server
/// decides which of them are listed.
///
/// Cost: three round trips for each 500 keys of the database, foreign keys included.
pub(crate) async fn list(
    primaries: &[Arc<Server>],
    listing: Listing<'_>,
) -> Result<Answer, StoreError> {
    let mut names = BTreeSet::new();
    let mut now = Now { lease_us: 0, token_us: 0 };
    for server in primaries {
        listing.scan(server, &mut names).await?;
        now = time(server, server.ask(&redis::cmd("TIME")).await?)?;
    }
    let names = names.into_iter().take(listing.limit).collect();
    Ok(Answer::new(now, Reply::Names(names)))
}

/// The next page: the held or awaited names among the next keys that are scanned. `after` says
/// where the previous page ended: the number of the server among the primaries, and the cursor
/// there.
///
/// Cost: a round trip, and another one if there are keys of locks among them.
pub(crate) async fn page(
    primaries: Vec<Result<Arc<Server>, StoreError>>,
    listing: Listing<'_>,
    after: Option<&str>,
) -> Result<Answer, StoreError> {
    let (index, cursor) = match after.map(PageEnd::parse) {
        None => (0, 0),
        Some(Some(PageEnd { index, cursor })) => (index, cursor),
        Some(None) => {
            let why = format!("{after:?} is no end of a page of this store: begin anew");
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
    };
    let count = primaries.len();
    // There are fewer servers than when the previous page was read, so the list has ended.
    let Some(server) = primaries.into_iter().nth(index) else {
        return Ok(Answer::new(Now { lease_us: 0, token_us: 0 }, Reply::Page(Page::default())));
    };
    let server = server?;
    let keys = u32::try_from(listing.limit).unwrap_or(u32::MAX).max(1);
    let mut asked = redis::pipe();
    asked.add_command(listing.scan_command(cursor, keys)).add_command(redis::cmd("TIME"));
    let [scanned, asked_time] = <[Value; 2]>::try_from(server.ask_all(&asked).await?)
        .map_err(|_| error::unexpected_reply(server.server(), "SCAN"))?;
    let (cursor, found) = listing.scanned(&server, server.check(scanned)?)?;
    let now = time(&server, server.check(asked_time)?)?;
    let scanned = keys.saturating_add(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let mut names = listing.matching(&server, found, now).await?;
    names.sort_unstable();
    names.dedup(); // a gate, and its queue
    let next = match cursor {
        0 if index + 1 >= count => None,
        0 => Some(PageEnd { index: index + 1, cursor: 0 }),
        cursor => Some(PageEnd { index, cursor }),
    };
    let next = next.map(|place| format!("{}:{}", place.index, place.cursor));
    Ok(Answer::new(now, Reply::Page(Page::new(names, next, scanned))))
}

/// The end of a page: the server, and the cursor on it.
#[derive(Clone, Copy, Debug)]
struct PageEnd {
    index: usize,
    cursor: u64,
}

impl PageEnd {
    fn parse(text: &str) -> Option<Self> {
        let (index, cursor) = text.split_once(':')?;
        Some(Self { index: index.parse().ok()?, cursor: cursor.parse().ok()? })
    }
}

impl Listing<'_> {
    fn scan_command(&self, cursor: u64, count: u32) -> Cmd {
        let pattern = self.layout.pattern(self.begin);
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(count);
        scan
    }

    /// The keys of locks that a scan has found, and the cursor behind them.
    fn scanned(
        &self,
        connection: &Connection,
        reply: Value,
    ) -> Result<(u64, NamedKeys), StoreError> {
        let (next, keys) = <(u64, Vec<Vec<u8>>)>::from_redis_value(reply)
            .map_err(|_| error::unexpected_reply(connection.server(), "SCAN"))?;
        let keys = keys.into_iter().filter_map(|key| Some((self.layout.name(&key)?, key)));
        Ok((next, keys.collect()))
    }

    /// Adds the names on one server, until there are enough.
    async fn scan(
        &self,
        connection: &Connection,
        names: &mut BTreeSet<LockName>,
    ) -> Result<(), StoreError> {
        let mut cursor = 0_u64;
        loop {
            let scan = self.scan_command(cursor, SCAN_COUNT);
            let (next, keys) = self.scanned(connection, connection.ask(&scan).await?)?;
            // SCAN may return a key twice.
            let new: Vec<_> = keys.into_iter().filter(|(name, _)| !names.contains(name)).collect();
            let now = time(connection, connection.ask(&redis::cmd("TIME")).await?)?;
            names.extend(self.matching(connection, new, now).await?);
            cursor = next;
            if cursor == 0 || names.len() >= self.limit {
                return Ok(());
            }
        }
    }

    async fn matching(
        &self,
        connection: &Connection,
        keys: NamedKeys,
        now: Now,
    ) -> Result<Vec<LockName>, StoreError> {
        let mut peeks = redis::pipe();
        for (_, key) in &keys {
            peeks.add_command(self.layout.peek(key));
        }
        let values = connection.ask_all(&peeks).await?;
        let is_lock = |value: &[u8]| self.layout.is_lock(value, now.lease_us);
        let found = keys
            .into_iter()
            .zip(values)
            .filter_map(|((name, _), value)| is_lock(&peeked(value)?).then_some(name));
        Ok(found.filter(|name| name.as_str().starts_with(self.begin)).collect())
    }
}

/// The value of a key, with several values as lines, or nothing if the key has another type. `None`
/// if it no longer exists.
fn peeked(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::ServerError(_) => Some(Vec::new()),
        Value::Array(values) if values.is_empty() => None,
        Value::Array(values) => {
            let lines: Vec<Vec<u8>> = values.into_iter().map(peeked).collect::<Option<_>>()?;
            Some(lines.join(&b'\n'))
        }
        value => Option::<Vec<u8>>::from_redis_value(value).ok()?,
    }
}

fn time(connection: &Connection, reply: Value) -> Result<Now, StoreError> {
    reply::time(reply).ok_or_else(|| error::unexpected_reply(connection.server(), "TIME"))
}
