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
/// Cost: two round trips for each 500 keys of the database, foreign keys included.
pub(crate) async fn list(
    primaries: &[Arc<Server>],
    listing: Listing<'_>,
) -> Result<Answer, StoreError> {
    let mut names = BTreeSet::new();
    let mut now = Now { lease_us: 0, token_us: 0 };
    for server in primaries {
        let mut cursor = 0;
        loop {
            let found = listing.step(server, cursor, SCAN_COUNT).await?;
            names.extend(found.names);
            (now, cursor) = (found.now, found.next);
            if cursor == 0 || names.len() >= listing.limit {
                break;
            }
        }
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
    let Step { next, scanned, mut names, now } = listing.step(&server, cursor, keys).await?;
    names.sort_unstable();
    names.dedup(); // a gate, and its queue
    let next = match next {
        0 if index + 1 >= count => None,
        0 => Some(PageEnd { index: index + 1, cursor: 0 }),
        cursor => Some(PageEnd { index, cursor }),
    };
    let next = next.map(|place| format!("{}:{}", place.index, place.cursor));
    Ok(Answer::new(now, Reply::Page(Page::new(names, next, keys.saturating_add(scanned)))))
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

/// What one step of a scan has found.
struct Step {
    /// The cursor behind it; zero at the end.
    next: u64,
    /// How many keys of locks were looked at.
    scanned: u32,
    names: Vec<LockName>,
    now: Now,
}

impl Listing<'_> {
    fn scan_command(&self, cursor: u64, count: u32) -> Cmd {
        let pattern = self.layout.pattern(self.begin);
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(count);
        scan
    }

    /// Scans some keys, and looks at those of locks.
    async fn step(&self, server: &Server, cursor: u64, count: u32) -> Result<Step, StoreError> {
        let unexpected = || error::unexpected_reply(server.server(), "SCAN");
        let mut asked = redis::pipe();
        asked.add_command(self.scan_command(cursor, count)).add_command(redis::cmd("TIME"));
        let [scanned, asked_time] =
            <[Value; 2]>::try_from(server.ask_all(&asked).await?).map_err(|_| unexpected())?;
        let (next, keys) = <(u64, Vec<Vec<u8>>)>::from_redis_value(server.check(scanned)?)
            .map_err(|_| unexpected())?;
        let now = time(server, server.check(asked_time)?)?;
        let keys = keys.into_iter().filter_map(|key| Some((self.layout.name(&key)?, key)));
        let keys: NamedKeys = keys.collect();
        let scanned = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let names = self.matching(server, keys, now).await?;
        Ok(Step { next, scanned, names, now })
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
