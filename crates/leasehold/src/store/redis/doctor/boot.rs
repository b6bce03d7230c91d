//! Whether a server, or a slot of it, is in quarantine now. The check only reads, and begins no
//! quarantine: the first client does that.

use std::time::Duration;

use leasehold_core::StoreError;
use leasehold_core::text::show_duration;
use redis::{FromRedisValue, Pipeline, Value};

use super::rights::is_denied;
use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::info::Info;
use crate::store::redis::doctor::clocks::{Offset, since_1970};
use crate::store::redis::layout::boot_key::BootKeys;
use crate::store::redis::options::{RedisOptions, Servers};
use crate::store::redis::topology::Map;

const TOPIC: &str = "quarantine";

const REMEDY: &str =
    "wait; or, only if no earlier lease can be valid, use `leasehold end-quarantine`";

/// The number of records that are read together: 512, which takes a server about a millisecond.
const AT_ONCE: usize = 512;

/// The finding from the boot records; `None` if there is no quarantine, or if this user may not
/// read them.
pub(crate) async fn finding(
    connection: &Connection,
    settings: &RedisOptions,
    info: Option<&Info>,
    offset: Option<Offset>,
) -> Result<Option<Finding>, StoreError> {
    let (Some(span), Some(info), Some(offset)) = (settings.quarantine(), info, offset) else {
        return Ok(None);
    };
    let limit = settings.connect_timeout();
    let in_cluster = matches!(settings.servers, Servers::Cluster(_));
    let slots = match in_cluster {
        true => slots_of(connection, limit).await?,
        false => Vec::new(),
    };
    let keys = BootKeys::new(settings.prefix(), in_cluster);
    let now = since_1970().as_secs_f64() + offset.ahead;
    let mut ages = Vec::new();
    for parts in keys.parts(&slots).chunks(AT_ONCE) {
        let mut read = Pipeline::new();
        for part in parts {
            read.cmd("HMGET").arg(keys.key(*part)).arg("run").arg("followed").arg("since");
        }
        let records = connection.ask_all_within(limit, &read).await?;
        if records.iter().any(is_denied) {
            return Ok(None);
        }
        let age = |record| age(record, info, now);
        ages.extend(records.into_iter().map(age));
    }
    Ok(match in_cluster {
        true => judge_slots(connection.server(), span, &ages),
        false => ages.first().map(|age| judge(connection.server(), span, *age)),
    })
}

/// The slots that a node of a cluster serves, by its own answer; none for a replica.
async fn slots_of(connection: &Connection, limit: Duration) -> Result<Vec<u16>, StoreError> {
    let slots = connection.ask_within(limit, redis::cmd("CLUSTER").arg("SLOTS")).await?;
    let map = Map::parse(slots, connection.address());
    Ok(map.map(|map| map.slots_of(connection.address())).unwrap_or_default())
}

/// The number of seconds since the quarantine of a record began; `None` if the record is of another
/// run, or the server has been a replica since then.
fn age(record: Value, info: &Info, now: f64) -> Option<f64> {
    type Record = (Option<String>, Option<String>, Option<u64>);
    let (run, followed, since) = Record::from_redis_value(record).ok()?;
    let follows = info.field("master_replid2").filter(|id| id.bytes().any(|digit| digit != b'0'));
    let is_of_this = run.as_deref() == Some(info.field("run_id")?)
        && (follows.is_none() || follows == followed.as_deref());
    let since = since.filter(|_| is_of_this)?;
    Some(now - Duration::from_micros(since).as_secs_f64())
}

/// The rest of a quarantine that began `age` seconds ago.
fn left(span: Duration, age: f64) -> Option<Duration> {
    let left = span.as_secs_f64() - age;
    (left > 0.0).then(|| Duration::from_secs_f64(left.min(span.as_secs_f64())))
}

/// The finding about a quarantine that began `age` seconds ago, or has not begun yet.
fn judge(place: &str, span: Duration, age: Option<f64>) -> Finding {
    let Some(age) = age else {
        return Topic(place, TOPIC).warning(
            "the server has forgotten who holds what, or is new",
            format!("nothing new is granted for {} after the next client", show_duration(span)),
            REMEDY,
        );
    };
    match left(span, age) {
        Some(left) => {
            let found = format!("the server is in quarantine for another {}", show_duration(left));
            Topic(place, TOPIC).warning(found, "nothing new is granted until then", REMEDY)
        }
        None => Topic(place, TOPIC).ok("the server's quarantine is over"),
    }
}

/// The finding about the quarantines of all slots of a server.
fn judge_slots(place: &str, span: Duration, ages: &[Option<f64>]) -> Option<Finding> {
    let count = ages.len();
    let to_begin = ages.iter().filter(|age| age.is_none()).count();
    let lefts: Vec<_> = ages.iter().flatten().filter_map(|age| left(span, *age)).collect();
    let longest = lefts.iter().max().map(|left| show_duration(*left));
    let still = longest.map(|longest| {
        format!("{} of {count} slots are in quarantine, for another {longest} at most", lefts.len())
    });
    Some(match (to_begin, still) {
        (0, None) if count == 0 => return None,
        (0, None) => {
            Topic(place, TOPIC).ok(format!("the quarantine of all its {count} slots is over"))
        }
        (0, Some(still)) => {
            Topic(place, TOPIC).warning(still, "nothing new is granted there until then", REMEDY)
        }
        (_, still) => {
            let still = still.map(|still| format!("; {still}")).unwrap_or_default();
            Topic(place, TOPIC).warning(
                format!(
                    "{to_begin} of {count} slots were not used since the server was started or \
                     they came to it{still}"
                ),
                format!("nothing new is granted there for {} from then on", show_duration(span)),
                REMEDY,
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_is_over_when_its_span_is() {
        let found = |age| judge("h:1", Duration::from_secs(60), age).found;
        assert!(found(Some(20.0)).contains("another 40s"), "{}", found(Some(20.0)));
        assert!(found(Some(61.0)).contains("over"));
        assert!(found(None).contains("forgotten"));
    }

    #[test]
    fn the_slots_of_a_server_that_are_in_quarantine_are_counted() {
        let found = |ages: &[Option<f64>]| {
            judge_slots("h:1", Duration::from_secs(60), ages).map(|finding| finding.found)
        };
        assert_eq!(found(&[]), None, "a replica");
        assert!(found(&[Some(61.0), Some(80.0)]).unwrap().contains("all its 2 slots is over"));
        let some = found(&[Some(20.0), Some(61.0), Some(30.0)]).unwrap();
        assert!(some.starts_with("2 of 3 slots") && some.contains("another 40s"), "{some}");
        let more = found(&[None, Some(20.0), Some(61.0)]).unwrap();
        assert!(more.starts_with("1 of 3 slots were not used"), "{more}");
        assert!(more.contains("1 of 3 slots are in quarantine"), "{more}");
    }
}
