//! Checks for faults that would break a promise: reports of every server of a store, and findings
//! in words.

mod boot;
pub(crate) mod clocks;
mod config;
pub(crate) mod connect_check;
pub(crate) mod fleet;
pub(crate) mod info_checks;
mod nodes;
mod replication;
mod rights;
mod server;
mod slots;

use futures_util::future::join_all;
use leasehold_core::StoreError;

use self::clocks::ServerClock;
use self::server::ServerReport;
use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::layout::plain::keys_note;
use crate::store::redis::options::{Address, LayoutName, RedisOptions, Servers};
use crate::store::redis::topology::Topology;

/// Reports of every server of a store, as findings.
///
/// # Errors
///
/// If none of the servers can be reached.
pub(crate) async fn diagnose(url: &str) -> leasehold_core::Result<Vec<Finding>> {
    let settings = RedisOptions::from_url(url)?;
    let dialer = Dialer::new(&settings)?;
    let mut findings: Vec<Finding> = layout(&settings).into_iter().collect();
    let (reports, missing) = match &settings.servers {
        Servers::Standalone(address) => {
            report_all(&settings, &dialer, std::slice::from_ref(address)).await
        }
        Servers::Quorum(nodes) => {
            let found = report_all(&settings, &dialer, nodes).await;
            findings.extend(fleet::quorum(&settings, &found.0, nodes.len()));
            found
        }
        Servers::Cluster(_) | Servers::Sentinel { .. } => {
            let (addresses, missing) = primaries(&settings).await?;
            let (reports, gone) = report_all(&settings, &dialer, &addresses).await;
            (reports, missing.into_iter().chain(gone).collect())
        }
    };
    if let ([], [error, ..]) = (&reports[..], &missing[..]) {
        return Err(error.clone().into());
    }
    findings.extend(missing.iter().map(unreachable));
    if let Servers::Sentinel { sentinels, service } = &settings.servers {
        findings.extend(fleet::sentinels(&settings, sentinels, service).await?);
    }
    let mut clocks = Vec::new();
    for primary in &reports {
        findings.extend(primary.findings(&settings));
        let (followers, found) = replicas(&settings, &dialer, primary).await;
        findings.extend(found);
        let together = std::iter::once(primary).chain(&followers);
        clocks.push(together.filter_map(ServerReport::clock).collect::<Vec<_>>());
    }
    let is_followed = reports.iter().any(|primary| !primary.followers().is_empty());
    findings.extend(apart(&settings, is_followed, clocks));
    Ok(findings)
}

/// Checks whether servers that take over from each other show the same time, by the clocks of each
/// primary and of its replicas.
fn apart(
    settings: &RedisOptions,
    is_followed: bool,
    clocks: Vec<Vec<ServerClock>>,
) -> Vec<Finding> {
    if settings.quarantine().is_some() {
        return Vec::new(); // the next server grants nothing until all earlier leases have ended
    }
    let groups = match &settings.servers {
        // A slot may move to any other primary.
        Servers::Cluster(_) => vec![clocks.concat()],
        Servers::Standalone(_) | Servers::Quorum(_) | Servers::Sentinel { .. } => clocks,
    };
    let allowed = settings.clock_offset(is_followed);
    groups.iter().filter_map(|together| clocks::finding(together, allowed)).collect()
}

/// The finding about a shared layout: its keys, and the conditions for the other programs.
fn layout(settings: &RedisOptions) -> Option<Finding> {
    if settings.layout.is_redisson() {
        return Some(Topic(&settings.servers.to_string(), "layout").ok(redisson(settings)));
    }
    let is_bare = settings.layout == LayoutName::Plain && settings.prefix.is_none();
    is_bare.then(|| {
        let [found, remedy] = keys_note(settings.prefix());
        let risk = "programs that write their keys otherwise are not excluded";
        Topic(&settings.servers.to_string(), "layout").warning(found, risk, remedy)
    })
}

/// Facts about locks that are shared with Redisson, which cannot be seen on the server.
fn redisson(settings: &RedisOptions) -> String {
    let tokens = match settings.layout == LayoutName::RedissonFenced {
        true => "tokens are the counters of RFencedLock",
        false => "tokens are the server's clock",
    };
    let sharded = match settings.servers {
        Servers::Cluster(_) => ", and the JVMs must not turn shardedSubscriptionMode off",
        Servers::Standalone(_) | Servers::Quorum(_) | Servers::Sentinel { .. } => "",
    };
    format!(
        "locks are shared with Redisson: nobody queues, {tokens}, no reader's ttl may be longer \
         than the JVMs' lockWatchdogTimeout{sharded}"
    )
}

/// Reports of servers, made at the same time, and the errors of servers without a report.
async fn report_all(
    settings: &RedisOptions,
    dialer: &Dialer,
    addresses: &[Address],
) -> (Vec<ServerReport>, Vec<StoreError>) {
    let reporting = addresses.iter().map(|address| ServerReport::make(settings, dialer, address));
    let (mut reports, mut missing) = (Vec::new(), Vec::new());
    for outcome in join_all(reporting).await {
        match outcome {
            Ok(found) => reports.push(found),
            Err(error) => missing.push(error),
        }
    }
    (reports, missing)
}

/// The primaries that sentinels or a cluster name now.
async fn primaries(
    settings: &RedisOptions,
) -> leasehold_core::Result<(Vec<Address>, Vec<StoreError>)> {
    let (mut addresses, mut missing) = (Vec::new(), Vec::new());
    for connection in Topology::new(settings, None, None)?.primaries().await? {
        match connection {
            Ok(connection) => addresses.push(connection.address().clone()),
            Err(error) => missing.push(error),
        }
    }
    Ok((addresses, missing))
}

/// The findings about the replicas of a primary, as possible primaries.
async fn replicas(
    settings: &RedisOptions,
    dialer: &Dialer,
    primary: &ServerReport,
) -> (Vec<ServerReport>, Vec<Finding>) {
    let followers = primary.followers();
    let addresses: Vec<Address> = followers.into_iter().map(|follower| follower.address).collect();
    let (reports, missing) = report_all(settings, dialer, &addresses).await;
    let would_be = reports.iter().flat_map(|replica| replica.findings_as_replica(settings));
    let unknown = missing.iter().map(|error| {
        Topic(&primary.server, "replicas").warning(
            format!("a replica cannot be reached from here ({error})"),
            "nothing is known of the settings that will be the primary's after a failover",
            "run doctor where it can be reached",
        )
    });
    let findings = would_be.chain(unknown).collect();
    (reports, findings)
}

fn unreachable(error: &StoreError) -> Finding {
    let text = error.to_string();
    let (place, why) = text.split_once(": ").unwrap_or(("the store", &text));
    Topic(place, "reachable").danger(
        why.to_owned(),
        "names that live there cannot be locked, and one more failure may stop the rest",
        "start it, or take it out of the store URL everywhere",
    )
}
