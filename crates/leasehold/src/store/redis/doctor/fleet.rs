//! Checks of several servers together: the sentinels of a service, or the nodes of a quorum.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::StoreError;
use leasehold_core::model::BALLOT_LEAD;
use leasehold_core::text::show_duration;
use redis::FromRedisValue;

use super::server::ServerReport;
use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::doctor::clocks::{CLOCK_OFFSET, ServerClock};
use crate::store::redis::node_list;
use crate::store::redis::options::{Address, RedisOptions, Servers};

/// The facts about the service from one sentinel.
struct SentinelView {
    primary: String,
    others: u64,
    is_down: bool,
}

/// Checks whether the sentinels of a URL can do their work.
pub(crate) async fn sentinels(
    settings: &RedisOptions,
    addresses: &[Address],
    service: &str,
) -> leasehold_core::Result<Vec<Finding>> {
    let dialer = Dialer::to_sentinels(settings)?;
    let watching = join_all(addresses.iter().map(|address| watch(&dialer, address, service))).await;
    let (topic, mut findings) = ("sentinels", Vec::new());
    let mut watches = Vec::new();
    for (address, outcome) in addresses.iter().zip(watching) {
        match outcome {
            Ok(watch) => watches.push((address, watch)),
            Err(error) => findings.push(Topic(&address.to_string(), topic).warning(
                format!("this sentinel is of no help ({error})"),
                "while a majority of them is away, nobody is promoted when the primary fails",
                "start it, or take it out of the store URLs",
            )),
        }
    }
    for (address, watch) in &watches {
        if watch.is_down {
            findings.push(Topic(&address.to_string(), topic).warning(
                format!("the sentinel takes the primary {} for dead", watch.primary),
                "a failover may be under way",
                "look at the primary, and at the network in between",
            ));
        }
    }
    let Some((first, watch)) = watches.first() else { return Ok(findings) };
    if let Some((other, otherwise)) = watches.iter().find(|(_, it)| it.primary != watch.primary) {
        findings.push(Topic(service, topic).danger(
            format!(
                "{first} names the primary {}, and {other} names {}",
                watch.primary, otherwise.primary
            ),
            "clients of one and of the other may lock the same name at once",
            "wait for the end of a failover; else SENTINEL RESET on those that are wrong",
        ));
    }
    let count = watches.iter().map(|(_, watch)| watch.others + 1).max().unwrap_or(1);
    findings.push(match count {
        3.. => Topic(service, topic).ok(format!("{count} sentinels name {}", watch.primary)),
        _ => Topic(service, topic).warning(
            format!("there are only {count} sentinels"),
            "when one is away, nobody is promoted",
            "run at least three, each on a separate machine",
        ),
    });
    Ok(findings)
}

async fn watch(
    dialer: &Dialer,
    address: &Address,
    service: &str,
) -> Result<SentinelView, StoreError> {
    let connection = dialer.dial(address, None).await?;
    let ask = redis::cmd("SENTINEL").arg("MASTER").arg(service).to_owned();
    let reply = connection.ask_within(dialer.connect_timeout(), &ask).await?;
    let fields = HashMap::<String, String>::from_redis_value(reply).unwrap_or_default();
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    Ok(SentinelView {
        primary: format!("{}:{}", field("ip"), field("port")),
        others: field("num-other-sentinels").parse().unwrap_or(0),
        is_down: field("flags").split(',').any(|flag| flag.ends_with("_down")),
    })
}

/// Checks whether there are enough independent nodes for a majority.
pub(crate) fn quorum(
    settings: &RedisOptions,
    reports: &[ServerReport],
    nodes: usize,
) -> Vec<Finding> {
    let servers = settings.servers.to_string();
    let topic = Topic(&servers, "quorum");
    let needed = nodes / 2 + 1;
    let mut findings = vec![match nodes {
        0..3 => topic.danger(
            format!("there are {nodes} nodes"),
            "none of them may fail",
            "run three or five",
        ),
        nodes if nodes % 2 == 0 => topic.warning(
            format!("there are {nodes} nodes, and {needed} must agree"),
            "that survives no more failures than one node less",
            "run three or five",
        ),
        nodes => topic.ok(format!("{needed} of {nodes} nodes must agree")),
    }];
    let pairs =
        (0..reports.len()).flat_map(|first| (first + 1..reports.len()).map(move |it| (first, it)));
    for (one, other) in pairs.map(|(first, second)| (&reports[first], &reports[second])) {
        findings.extend(same(one, other));
        findings
            .extend(one.clock().zip(other.clock()).and_then(|(one, other)| apart(&one, &other)));
    }
    findings.extend(lists(settings, reports, nodes));
    findings
}

/// Checks whether all clients of these nodes use the same list.
fn lists(settings: &RedisOptions, reports: &[ServerReport], nodes: usize) -> Vec<Finding> {
    let servers = settings.servers.to_string();
    let topic = Topic(&servers, "nodes");
    if settings.layout.is_shared() {
        let found = "programs in other languages do not record their nodes here: compare them";
        return vec![topic.ok(found)];
    }
    let Servers::Quorum(addresses) = &settings.servers else { return Vec::new() };
    let own = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut others: Vec<&(String, String)> = Vec::new();
    for list in reports.iter().flat_map(|one| &one.node.lists) {
        // Nothing is known of nodes that cannot be reached.
        let unknown = std::iter::repeat_n(None, nodes - reports.len());
        let ids = reports.iter().map(|one| one.node.id.as_deref()).chain(unknown);
        if !node_list::agree(ids, &list.0) && !others.iter().any(|other| other.0 == list.0) {
            others.push(list);
        }
    }
    if others.is_empty() {
        return vec![topic.ok("no client with other nodes was here lately")];
    }
    let danger = |(_, theirs): &(String, String)| {
        let [found, risk, remedy] = node_list::mismatch(&own, theirs);
        topic.danger(found, risk, remedy)
    };
    others.into_iter().map(danger).collect()
}

fn same(one: &ServerReport, other: &ServerReport) -> Option<Finding> {
    let run_id = |report: &ServerReport| Some(report.info.as_ref()?.field("run_id")?.to_owned());
    (run_id(one).is_some() && run_id(one) == run_id(other)).then(|| {
        Topic(&one.server, "quorum").danger(
            format!("this server and {} are the same server", other.server),
            "a majority of the names is not a majority of the servers",
            "name each server once",
        )
    })
}

/// The finding about two nodes of a quorum whose clocks are too far apart. The nodes keep the last
/// token for [`RETENTION`]. That is long enough while the clocks differ by at most [`BALLOT_LEAD`].
/// Beyond that, nodes refuse each other's tokens.
///
/// [`RETENTION`]: leasehold_core::model::RETENTION
pub(crate) fn apart(one: &ServerClock, other: &ServerClock) -> Option<Finding> {
    let apart = one.offset.from(other.offset);
    let far = show_duration(Duration::from_secs_f64(apart.ahead.abs()));
    let found = format!("the server's clock is {far} from that of {}", other.server);
    let remedy = "run NTP on both";
    if apart.exceeds(BALLOT_LEAD) {
        let risk = "the server refuses tokens that the other has granted, so its vote is missing";
        Some(Topic(&one.server, "clock").danger(found, risk, remedy))
    } else if apart.exceeds(CLOCK_OFFSET) {
        let risk = "tokens need a second round trip, and run ahead of the clock";
        Some(Topic(&one.server, "clock").warning(found, risk, remedy))
    } else {
        None
    }
}
