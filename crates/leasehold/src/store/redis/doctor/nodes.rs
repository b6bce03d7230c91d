//! Reads the record that clients write at a node of a quorum: the id of the node, and the lists of
//! nodes that the clients use.

use std::time::Duration;

use leasehold_core::StoreError;
use redis::FromRedisValue;

use super::rights::is_denied;
use crate::store::redis::connection::Connection;
use crate::store::redis::doctor::clocks::{Offset, since_1970};
use crate::store::redis::layout::key;
use crate::store::redis::layout::script::LIST_LIFE;
use crate::store::redis::options::RedisOptions;

/// The record of a node about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeRecord {
    /// The id of the node; `None` if the user may not read it. The id is empty, and on no list, if
    /// no client has used the node yet.
    pub(crate) id: Option<String>,
    /// The lists in use: the ids of the nodes, and their addresses.
    pub(crate) lists: Vec<(String, String)>,
}

impl NodeRecord {
    /// Reads the record that clients have left at the node.
    pub(crate) async fn read(
        connection: &Connection,
        settings: &RedisOptions,
        offset: Option<Offset>,
    ) -> Result<Self, StoreError> {
        if settings.layout.is_shared() {
            return Ok(Self::default());
        }
        let mut read = redis::cmd("HMGET");
        read.arg(key::nodes(settings.prefix())).arg(&["id", "list1", "list2", "list3", "list4"]);
        let record = connection.send_within(settings.connect_timeout(), &read).await?;
        if is_denied(&record) {
            return Ok(Self::default());
        }
        let record = Vec::<Option<String>>::from_redis_value(connection.check(record)?);
        let mut record = record.unwrap_or_default().into_iter();
        let id = Some(record.next().flatten().unwrap_or_default());
        let now = since_1970().as_secs_f64() + offset.map_or(0.0, |offset| offset.ahead);
        Ok(Self { id, lists: record.flatten().filter_map(|line| in_use(&line, now)).collect() })
    }
}

/// Decodes a list, if it was left recently.
fn in_use(text: &str, now: f64) -> Option<(String, String)> {
    let mut lines = text.split('\n');
    let used = Duration::from_micros(lines.next()?.parse().ok()?).as_secs_f64();
    let (ids, addresses) = (lines.next()?.to_owned(), lines.next()?.to_owned());
    (now - used < LIST_LIFE.as_secs_f64()).then_some((ids, addresses))
}
