//! Lists the names on a server, with SCAN in small steps and never with KEYS.

use std::collections::BTreeSet;

use leasehold_core::{Answer, Now, Page, Reply, StoreError, StoreErrorKind};
use redis::{FromRedisValue, Value};

use super::connection::error;
use super::layout::{Layout, reply};
use super::topology::Opening;

/// A page: the held or awaited names among the next keys that are scanned. `after` says where the
/// previous page ended: the number of the server among the primaries, and the cursor there.
///
/// Cost: a round trip, and another one if there are keys of locks among them.
pub(crate) async fn page(
    primaries: Vec<Opening<'_>>,
    layout: &dyn Layout,
    prefix: &str,
    after: Option<&str>,
    keys: u32,
) -> Result<Answer, StoreError> {
    let Some((index, cursor)) = after.map_or(Some((0, 0)), page_end) else {
        let why = format!("{after:?} is no end of a page of this store: begin anew");
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    };
    let (count, keys) = (primaries.len(), keys.max(1));
    // There are fewer servers than when the previous page was read, so the list has ended.
    let Some(server) = primaries.into_iter().nth(index) else {
        return Ok(Answer::new(Now { lease_us: 0, token_us: 0 }, Reply::Page(Page::default())));
    };
    let server = server.await?;
    let unexpected = |command| error::unexpected_reply(server.server(), command);
    let mut ask = redis::pipe();
    ask.cmd("SCAN").arg(cursor).arg("MATCH").arg(layout.pattern(prefix)).arg("COUNT").arg(keys);
    ask.cmd("TIME");
    let [scanned, time] =
        <[Value; 2]>::try_from(server.ask_all(&ask).await?).map_err(|_| unexpected("SCAN"))?;
    let (next, found) = <(u64, Vec<Vec<u8>>)>::from_redis_value(server.check(scanned)?)
        .map_err(|_| unexpected("SCAN"))?;
    let now = reply::time(server.check(time)?).ok_or_else(|| unexpected("TIME"))?;
    let found: Vec<_> =
        found.into_iter().filter_map(|key| Some((layout.name(&key)?, key))).collect();
    let mut peeks = redis::pipe();
    for (_, key) in &found {
        peeks.add_command(layout.peek(key));
    }
    let scanned = keys.saturating_add(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let is_lock = |value| peeked(value).is_some_and(|value| layout.is_lock(&value, now.lease_us));
    let locks = found.into_iter().zip(server.ask_all(&peeks).await?);
    let names = locks.filter_map(|((name, _), value)| is_lock(value).then_some(name));
    // A name that others wait for has two keys.
    let names: BTreeSet<_> = names.filter(|name| name.as_str().starts_with(prefix)).collect();
    let next = match next {
        0 if index + 1 >= count => None,
        0 => Some(format!("{}:0", index + 1)),
        cursor => Some(format!("{index}:{cursor}")),
    };
    Ok(Answer::new(now, Reply::Page(Page::new(names.into_iter().collect(), next, scanned))))
}

/// The server and the cursor on it at the end of a page.
fn page_end(text: &str) -> Option<(usize, u64)> {
    let (index, cursor) = text.split_once(':')?;
    Some((index.parse().ok()?, cursor.parse().ok()?))
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
