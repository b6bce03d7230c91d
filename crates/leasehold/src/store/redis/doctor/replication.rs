//! The replicas of a primary: their number, their lag, and whether the policy of the store URL fits
//! them.

use std::time::Duration;

use leasehold_core::text::show_duration;

use super::config::ServerConfig;
use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::info::{Follower, Info};
use crate::store::redis::options::{RedisOptions, Replicas, Servers};

const TOPIC: &str = "replicas";

/// How long a replica may be silent without a warning: 5 s. It normally acknowledges every second.
const LAG: Duration = Duration::from_secs(5);

/// The findings about the replicas.
pub(crate) fn findings(
    place: &str,
    info: &Info,
    config: &ServerConfig,
    settings: &RedisOptions,
) -> Vec<Finding> {
    let followers = info.followers();
    let mut findings = vec![policy(place, followers.len(), settings)];
    findings.extend(followers.iter().filter_map(|follower| trouble(place, follower)));
    findings.extend(write_limit(place, config, followers.len(), settings));
    findings
}

/// The finding about grants that a failover may forget.
fn policy(place: &str, count: usize, settings: &RedisOptions) -> Finding {
    let followed = match count {
        0 => "no replica follows the server".to_owned(),
        1 => "1 replica follows the server".to_owned(),
        count => format!("{count} replicas follow the server"),
    };
    let fails_over = matches!(settings.servers, Servers::Cluster(_) | Servers::Sentinel { .. });
    let too_few = |asked: &str| {
        Topic(place, TOPIC).danger(
            format!("replicas={asked}, and {followed}"),
            "nothing is granted until more do",
            "start the replicas, or lower replicas= in every store URL",
        )
    };
    let remedy = || settings.or_quarantine("give replicas=all in every store URL");
    match settings.replicas {
        Replicas::All if count == 0 => too_few("all"),
        Replicas::All => Topic(place, TOPIC).ok(format!("{followed}, and all are waited for")),
        Replicas::AtLeast(asked) if asked as usize > count => too_few(&asked.to_string()),
        Replicas::AtLeast(asked) if (asked as usize) < count => Topic(place, TOPIC).warning(
            format!("replicas={asked}, and {followed}"),
            "the one that is promoted may be one that was not waited for, and forget a grant",
            "give replicas=all in every store URL",
        ),
        Replicas::AtLeast(_) => Topic(place, TOPIC).ok(format!("{followed}; each is waited for")),
        Replicas::None if count == 0 && !fails_over => Topic(place, TOPIC).ok(followed),
        Replicas::None if settings.quarantine().is_some() => Topic(place, TOPIC)
            .ok(format!("{followed}; after a failover the quarantine keeps newcomers out")),
        Replicas::None if fails_over => Topic(place, TOPIC).danger(
            format!("{followed}, and a grant waits for none"),
            "a failover forgets the last grants, and somebody else may get a lock that is held",
            remedy(),
        ),
        Replicas::None => Topic(place, TOPIC).warning(
            format!("{followed}, and a grant waits for none"),
            "if one is promoted, somebody else may get a lock that is held",
            remedy(),
        ),
    }
}

fn trouble(place: &str, follower: &Follower) -> Option<Finding> {
    let Follower { address, state, lag } = follower;
    let found = if state != "online" {
        format!("the replica {address} is not in step yet ({state})")
    } else if *lag > LAG {
        format!("the replica {address} has acknowledged nothing for {}", show_duration(*lag))
    } else {
        return None;
    };
    let risk = "replicas=all waits for it, and a failover to it forgets what it has not got";
    let remedy = "look at that server and at the network in between";
    Some(Topic(place, TOPIC).warning(found, risk, remedy))
}

/// The finding about a primary that is cut off from its replicas. It still grants leases, unless it
/// is configured not to, or unless grants wait for replicas.
fn write_limit(
    place: &str,
    config: &ServerConfig,
    count: usize,
    settings: &RedisOptions,
) -> Option<Finding> {
    let limit = config.get("min-replicas-to-write")?;
    if count == 0 || settings.replicas != Replicas::None {
        return None;
    }
    Some(match limit {
        "0" => Topic(place, TOPIC).warning(
            "min-replicas-to-write is 0",
            "a primary that is cut off goes on granting what the promoted one grants, too",
            "set min-replicas-to-write 1 and min-replicas-max-lag 10",
        ),
        limit => {
            let lag = config.get("min-replicas-max-lag").unwrap_or("?");
            let found =
                format!("the server stops writing with fewer than {limit} replicas, after {lag} s");
            Topic(place, TOPIC).ok(found)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_not_in_step_is_a_finding() {
        let info = Info::from(
            "connected_slaves:3\r\n\
             slave0:ip=10.0.0.1,port=6379,state=online,offset=14,lag=1\r\n\
             slave1:ip=::1,port=7000,state=online,offset=14,lag=12\r\n\
             slave2:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\n",
        );
        let followers = info.followers();
        let found: Vec<String> =
            followers.iter().filter_map(|follower| Some(trouble("h:1", follower)?.found)).collect();
        let [late, behind] = &found[..] else { panic!("{found:?}") };
        assert!(late.contains("[::1]:7000") && late.contains("12s"), "{late}");
        assert!(behind.contains("10.0.0.3:6379") && behind.contains("wait_bgsave"), "{behind}");
    }
}
