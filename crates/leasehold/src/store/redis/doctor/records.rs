//! Records that this release cannot read: nobody can lock their names.

use leasehold_core::{LockName, StoreError};
use redis::{FromRedisValue, Pipeline, Value};

use crate::store::Finding;
use crate::store::redis::connection::Connection;
use crate::store::redis::layout::codec::RECORD_VERSION;
use crate::store::redis::layout::key;
use crate::store::redis::layout::native::STATE_FIELD;
use crate::store::redis::options::{LayoutName, Settings};

/// How many keys the server visits in one step: well below a millisecond of its time.
const AT_ONCE: u32 = 500;

/// How many steps are made at most: 20, for the first 10 000 keys. What a change of release does,
/// it does to all of them.
const STEPS: usize = 20;

/// What the first keys say; nothing where all of them can be read, or they may not be.
pub(super) async fn finding(
    connection: &Connection,
    settings: &Settings,
) -> Result<Option<Finding>, StoreError> {
    if settings.layout != LayoutName::Native {
        return Ok(None);
    }
    let (prefix, limit) = (settings.prefix(), settings.connect_timeout);
    let mut unreadable = Vec::new();
    let mut cursor = 0;
    for _ in 0..STEPS {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(key::pattern(prefix, "")).arg("COUNT").arg(AT_ONCE);
        let Ok(found) = connection.ask_within(limit, &scan).await else { return Ok(None) };
        let Ok((next, keys)) = <(u64, Vec<Vec<u8>>)>::from_redis_value(found) else {
            return Ok(None);
        };
        let named = keys.iter().filter_map(|key| Some((key::name(prefix, key)?, key)));
        let named: Vec<_> = named.collect();
        let mut read = Pipeline::new();
        for (_, key) in &named {
            read.cmd("HGET").arg(key).arg(STATE_FIELD);
        }
        let states = connection.ask_all_within(limit, &read).await?;
        let each = named.into_iter().zip(states);
        unreadable.extend(each.filter_map(|((name, _), state)| Some((name, why(&state)?))));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    Ok(judge(connection.server(), &unreadable))
}

/// Why a record cannot be read by what stands in the field of its state, if it cannot.
fn why(state: &Value) -> Option<String> {
    match state {
        Value::BulkString(bytes) => match bytes.first() {
            Some(&RECORD_VERSION) => None,
            Some(version) => Some(format!("version {version}")),
            None => Some("damaged".to_owned()),
        },
        Value::ServerError(refusal) if refusal.code() == "WRONGTYPE" => {
            Some("a key of another type".to_owned())
        }
        // It ended in between, or may not be read.
        _ => None,
    }
}

fn judge(place: &str, unreadable: &[(LockName, String)]) -> Option<Finding> {
    let (name, why) = unreadable.first()?;
    let found = match unreadable.len() {
        1 => format!("the record of {name} cannot be read ({why})"),
        count => format!("{count} records cannot be read, {name} for one ({why})"),
    };
    Some(Finding::danger(
        place,
        "records",
        found,
        "nobody can lock such a name",
        "use one release of leasehold everywhere; what is damaged, look at and delete",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_another_release_or_none_at_all_cannot_be_read() {
        let state = |bytes: &[u8]| why(&Value::BulkString(bytes.to_vec()));
        assert_eq!(state(&[RECORD_VERSION, 0]), None);
        assert_eq!(state(b"garbage").as_deref(), Some("version 103"));
        assert_eq!(state(b"").as_deref(), Some("damaged"));
        assert_eq!(why(&Value::Nil), None);
    }
}
