//! Whether a cluster serves all its slots, in the view of each of its nodes.

use std::time::Duration;

use leasehold_core::StoreError;

use super::rights::is_denied;
use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::info::Info;
use crate::store::redis::layout::slot::SLOTS;

const TOPIC: &str = "slots";

const ALL: u64 = SLOTS as u64;

/// The finding from one node; `None` if the user may not ask.
pub(crate) async fn finding(
    connection: &Connection,
    limit: Duration,
) -> Result<Option<Finding>, StoreError> {
    let ask = redis::cmd("CLUSTER").arg("INFO").to_owned();
    let reply = connection.send_within(limit, &ask).await?;
    if is_denied(&reply) {
        return Ok(None);
    }
    let info = Info::of(connection.check(reply)?);
    Ok(judge(connection.server(), &info))
}

fn judge(place: &str, info: &Info) -> Option<Finding> {
    let number = |name: &str| info.field(name)?.parse::<u64>().ok();
    let (assigned, failed) = (number("cluster_slots_assigned")?, number("cluster_slots_fail")?);
    let state = info.field("cluster_state")?;
    let lost = ALL.saturating_sub(assigned) + failed;
    Some(match (state, lost) {
        ("ok", 0) => Topic(place, TOPIC).ok(format!("all {ALL} slots are served")),
        ("ok", lost) => Topic(place, TOPIC).danger(
            format!("{lost} of {ALL} slots are served by nobody"),
            "names that live there cannot be locked",
            "start the primaries they belong to, or give them to others (redis-cli --cluster fix)",
        ),
        (state, 0) => Topic(place, TOPIC).danger(
            format!("cluster_state is {state}, as this node sees it"),
            "the node serves nothing until it reaches a majority of the primaries",
            "look at the other nodes, and at the network in between",
        ),
        (state, lost) => Topic(place, TOPIC).danger(
            format!("cluster_state is {state}: {lost} of {ALL} slots are served by nobody"),
            "names that live there cannot be locked, and while cluster-require-full-coverage is \
             yes no other name can",
            "start the primaries they belong to, or give them to others (redis-cli --cluster fix)",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn slots_that_nobody_serves_are_counted() {
        let found = |state: &str, assigned: u64, failed: u64| {
            let text = format!(
                "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\n\
                 cluster_slots_ok:{}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:{failed}\r\n",
                assigned - failed
            );
            let finding = judge("h:1", &Info::from(text.as_str())).unwrap();
            (finding.level, finding.found)
        };
        assert_eq!(found("ok", ALL, 0), (Level::Ok, "all 16384 slots are served".to_owned()));
        for (state, assigned, failed, words) in [
            ("ok", ALL, 5461, "5461 of 16384 slots are served by nobody"),
            ("fail", ALL - 1, 0, "1 of 16384 slots are served by nobody"),
            ("fail", ALL, 0, "cluster_state is fail, as this node sees it"),
        ] {
            let (level, text) = found(state, assigned, failed);
            assert!(level == Level::Danger && text.contains(words), "{text}");
        }
        assert_eq!(judge("h:1", &Info::from("")), None);
    }
}
