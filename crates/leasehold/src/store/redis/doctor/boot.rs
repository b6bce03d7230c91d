//! Whether a server is in quarantine now. It is only read: the first client begins one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::StoreError;
use leasehold_core::text::show_duration;
use redis::FromRedisValue;

use super::rights::is_denied;
use crate::store::Finding;
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::info::Info;
use crate::store::redis::doctor::clocks::Offset;
use crate::store::redis::layout::key;
use crate::store::redis::options::Settings;

const TOPIC: &str = "quarantine";

/// What the boot record says; nothing where there is no quarantine, or it may not be read.
pub(crate) async fn finding(
    connection: &Connection,
    settings: &Settings,
    info: Option<&Info>,
    offset: Option<Offset>,
) -> Result<Option<Finding>, StoreError> {
    let (Some(span), Some(info), Some(offset)) = (settings.quarantine(), info, offset) else {
        return Ok(None);
    };
    let mut read = redis::cmd("HMGET");
    read.arg(key::boot(settings.prefix())).arg("run").arg("since");
    let record = connection.send_within(settings.connect_timeout, &read).await?;
    if is_denied(&record) {
        return Ok(None);
    }
    let (run, since) = <(Option<String>, Option<u64>)>::from_redis_value(connection.check(record)?)
        .unwrap_or_default();
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let age = since.map(|since| here + offset.ahead - Duration::from_micros(since).as_secs_f64());
    let is_known = run.is_some() && run.as_deref() == info.field("run_id");
    Ok(Some(judge(connection.server(), span, age.filter(|_| is_known))))
}

/// A quarantine that began so many seconds ago, or one that is still to begin.
fn judge(place: &str, span: Duration, age: Option<f64>) -> Finding {
    let remedy = "wait; or, only if no lease of before can be out, use `leasehold end-quarantine`";
    let left = age.map(|age| span.as_secs_f64() - age);
    match left {
        None => Finding::warning(
            place,
            TOPIC,
            "the server has forgotten who holds what, or is new",
            format!("nothing new is granted for {} after the next client", show_duration(span)),
            remedy,
        ),
        Some(left) if left > 0.0 => {
            let left = show_duration(Duration::from_secs_f64(left.min(span.as_secs_f64())));
            let found = format!("the server is in quarantine for another {left}");
            Finding::warning(place, TOPIC, found, "nothing new is granted until then", remedy)
        }
        Some(_) => Finding::ok(place, TOPIC, "the server's quarantine is over"),
    }
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
}
