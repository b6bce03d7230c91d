//! The checks of a server that connecting and an examination share: whether the server can be used,
//! and which of its settings weaken a promise.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use leasehold_core::{StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout_at};

use super::clocks::{OF_THIS_MACHINE, ServerClock, compare};
use super::connection::info::{Follower, Info};
use super::connection::{Connection, error};
use super::durability::Server;
use super::options::{Address, RedisOptions, Servers};
use super::topology::{Opening, Topology};
use crate::store::finding::{Finding, Level, Topic};

/// The pauses before a server that has closed the connection is checked again, in ms. The
/// usual pause before a failed server is dialled again applies as well. A server that closes every
/// connection immediately, as a TLS port may, is reported in less than two seconds.
const CLOSED_PAUSES: [u64; 4] = [50, 100, 200, 400];

/// How long the remaining nodes may take once enough are connected, one of a cluster or a majority
/// of a quorum: 500 ms, like one request. A node that takes longer joins later.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// The oldest usable version, because of `redis.acl_check_cmd`, ACLs in scripts and sharded
/// messages.
const OLDEST_REDIS: (u32, u32) = (7, 0);
const OLDEST_VALKEY: (u32, u32) = (7, 2);

/// What any user may know of one server.
pub(crate) struct Report {
    /// The server's INFO; `None` if the user may not ask.
    pub(crate) info: Option<Info>,
    /// The server's clock; `None` if the user may not ask.
    pub(crate) clock: Option<ServerClock>,
    pub(crate) incompatible: Option<Incompatible>,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    pub(crate) async fn of(
        connection: &Connection,
        settings: &RedisOptions,
    ) -> Result<Self, StoreError> {
        let (server, limit) = (connection.server(), settings.connect_timeout());
        // TIME and INFO are sent together: a process that starts for one short job waits for them.
        // TIME comes first, because a command before it would make the reading less exact.
        let (clock, info) =
            join(ServerClock::read(connection, limit), connection.info(limit)).await;
        let info = info?;
        let incompatible = info.as_ref().and_then(|info| incompatibility(info, settings));
        // A sentinel has no TIME.
        let clock = if incompatible.is_some() { clock.unwrap_or_default() } else { clock? };
        let here = [ServerClock::of_this_machine()];
        let clocks = [&here[..], clock.as_slice()].concat();
        let of_info = match &info {
            Some(info) => [eviction(server, info), persistence(server, info, settings)],
            None => [Some(no_info(server)), None],
        };
        let of_clock = compare(server, &clocks, &OF_THIS_MACHINE);
        let findings = of_info.into_iter().flatten().chain(of_clock).collect();
        Ok(Self { info, clock, incompatible, findings })
    }

    /// The replicas of the server.
    pub(crate) fn followers(&self) -> Vec<Follower> {
        self.info.as_ref().map(Info::followers).unwrap_or_default()
    }
}

/// The results of the checks of all servers on connecting.
#[derive(Debug, Default)]
pub(crate) struct ConnectCheck {
    /// Warnings about settings that weaken a promise; empty if all is well.
    pub(crate) warnings: Vec<String>,
    /// The clocks of the servers whose time the user may ask for.
    pub(crate) clocks: Vec<ServerClock>,
    /// The replicas of the servers.
    pub(crate) followers: Vec<Address>,
}

/// Checks the primaries. Repeats the check if a server closes a connection meanwhile, as when an
/// operator closes all connections, or a proxy is restarted.
///
/// # Errors
///
/// If none can be reached, or a primary cannot be used: too old, a replica, a sentinel, an
/// unexpected node of a cluster. Nothing was executed.
pub(crate) async fn check_servers(
    topology: &Topology,
    settings: &RedisOptions,
) -> Result<ConnectCheck, StoreError> {
    for pause in CLOSED_PAUSES.map(Duration::from_millis) {
        match check_once(topology, settings).await {
            Err(error) if error::is_closed(&error) => sleep(pause).await,
            outcome => return outcome.map_err(StoreError::not_executed),
        }
    }
    check_once(topology, settings).await.map_err(StoreError::not_executed)
}

async fn check_once(
    topology: &Topology,
    settings: &RedisOptions,
) -> Result<ConnectCheck, StoreError> {
    let mut found = ConnectCheck::default();
    for server in there(topology.primaries().await?).await? {
        let report = Report::of(&server, settings).await?;
        found.followers.extend(report.followers().into_iter().map(|follower| follower.address));
        if let Some(incompatible) = report.incompatible {
            let why = format!("{}: {incompatible}", server.server());
            return Err(StoreError::new(incompatible.kind, why).with_source(incompatible));
        }
        let troubles = report.findings.iter().filter(|finding| finding.level != Level::Ok);
        found.warnings.extend(troubles.map(ToString::to_string));
        found.clocks.extend(report.clock);
        let slots = topology.slots_of(server.address());
        found.warnings.extend(server.check_durability(&slots).await?);
    }
    Ok(found)
}

/// The servers that answer. In a cluster, they serve their slots, even while others do not.
async fn there(primaries: Vec<Opening<'_>>) -> Result<Vec<Arc<Server>>, StoreError> {
    let mut opening: FuturesUnordered<_> = primaries.into_iter().collect();
    let (mut there, mut missing, mut until) = (Vec::new(), None, None);
    loop {
        let next = match until {
            None => opening.next().await,
            Some(until) => timeout_at(until, opening.next()).await.ok().flatten(),
        };
        match next {
            Some(Ok(server)) => {
                there.push(server);
                until.get_or_insert_with(|| Instant::now() + GRACE);
            }
            Some(Err(error)) => missing = Some(error),
            None => return missing.filter(|_| there.is_empty()).map_or(Ok(there), Err),
        }
    }
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{is}: {remedy}")]
pub(crate) struct Incompatible {
    kind: StoreErrorKind,
    pub(crate) topic: &'static str,
    pub(crate) is: String,
    pub(crate) remedy: &'static str,
}

/// Why this server cannot be a primary of the store; `None` if it can.
fn incompatibility(info: &Info, settings: &RedisOptions) -> Option<Incompatible> {
    let in_cluster = matches!(settings.servers, Servers::Cluster(_));
    let (mut kind, topic) = (StoreErrorKind::Unsupported, "role");
    let role = match info.field("redis_mode").or_else(|| info.field("server_mode")) {
        Some("sentinel") => Some(("a sentinel", "write redis+sentinel://HOST:PORT,…/SERVICE")),
        Some("cluster") if !in_cluster => {
            Some(("a node of a cluster", "begin the store URL with redis+cluster://"))
        }
        Some("standalone") if in_cluster => {
            Some(("no node of a cluster", "begin the store URL with redis://"))
        }
        // In a cluster, the server was the primary a moment ago, and the client finds the new one.
        _ if !in_cluster && info.is_replica() => {
            // The replica may be promoted soon: a failover behind one address passes by itself.
            kind = StoreErrorKind::Unreachable;
            Some(("a replica", "give the primary in the store URL"))
        }
        _ => None,
    };
    if let Some((is, remedy)) = role {
        return Some(Incompatible { kind, topic, is: format!("the server is {is}"), remedy });
    }
    let (name, version) = info.version()?;
    let oldest = if name == "Valkey" { OLDEST_VALKEY } else { OLDEST_REDIS };
    (parse_version(version)? < oldest).then(|| Incompatible {
        kind: StoreErrorKind::Version,
        topic: "version",
        is: format!("the server is {name} {version}"),
        remedy: "leasehold needs Redis 7.0 or Valkey 7.2",
    })
}

/// The finding about locks on a full server.
fn eviction(place: &str, info: &Info) -> Option<Finding> {
    let (policy, topic) = (info.field("maxmemory_policy")?, Topic(place, "eviction"));
    let found = format!("maxmemory-policy is {policy}");
    let risk = "a full server deletes locks, and two may hold the same";
    let remedy = "set maxmemory-policy noeviction";
    Some(match (policy, info.number("maxmemory")) {
        ("noeviction", limit) if limit > 0 && info.number("used_memory") >= limit => {
            topic.danger("the memory is full", "nothing can be locked", "raise maxmemory")
        }
        ("noeviction", _) => topic.ok(found),
        (_, 0) => topic.warning(format!("{found}, without a maxmemory"), risk, remedy),
        (_, _) => topic.danger(found, risk, remedy),
    })
}

/// The finding about data that a restart forgets. With a quarantine, such a loss costs a delay,
/// and breaks no promise.
fn persistence(place: &str, info: &Info, settings: &RedisOptions) -> Option<Finding> {
    let (topic, found) = (Topic(place, "persistence"), "there is no append-only file");
    let risk = "a restart forgets who holds what, and somebody else may get a lock that is held";
    match (info.field("aof_enabled")?, settings.quarantine()) {
        ("0", Some(_)) => Some(topic.ok(format!("{found}, but a quarantine"))),
        ("0", None) => {
            Some(topic.danger(found, risk, &settings.or_quarantine("set appendonly yes")))
        }
        (_, _) => None,
    }
}

fn no_info(server: &str) -> Finding {
    let risk = "it is not known whether the server deletes or forgets locks";
    Topic(server, "rights").warning("this user may not run INFO", risk, "grant +info")
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> RedisOptions {
        RedisOptions::from_url(url).unwrap()
    }

    #[test]
    fn a_server_that_cannot_be_used_is_refused() {
        use StoreErrorKind::{Unreachable, Unsupported, Version};
        let kind = |url: &str, info: &str| {
            incompatibility(&Info::from(info), &settings(url)).map(|incompatible| incompatible.kind)
        };
        for (info, refusal) in [
            ("redis_version:7.0.15\r\nrole:master\r\n", None),
            ("redis_version:6.2.14\r\nrole:master\r\n", Some(Version)),
            ("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", None),
            ("redis_version:7.2.4\r\nvalkey_version:7.1.0\r\n", Some(Version)),
            ("redis_version:7.0.15\r\nrole:slave\r\n", Some(Unreachable)),
            ("redis_mode:cluster\r\n", Some(Unsupported)),
            ("redis_mode:sentinel\r\n", Some(Unsupported)),
            ("something else", None),
        ] {
            assert_eq!(kind("redis://h", info), refusal, "{info}");
        }
        assert_eq!(kind("redis+cluster://h", "redis_mode:cluster\r\nrole:master\r\n"), None);
        assert_eq!(kind("redis+cluster://h", "redis_mode:standalone\r\n"), Some(Unsupported));
    }

    #[test]
    fn a_missing_append_only_file_is_a_danger_without_a_quarantine() {
        let finding = |info: &str, options: &str| {
            persistence("h:1", &Info::from(info), &settings(&format!("redis://h?{options}")))
        };
        let level = |info, options| finding(info, options).map(|finding| finding.level);
        assert_eq!(level("aof_enabled:0", ""), Some(Level::Danger));
        assert_eq!(level("aof_enabled:0", "quarantine=on"), Some(Level::Ok));
        assert_eq!(level("aof_enabled:1", ""), None);
        let remedy = |options| finding("aof_enabled:0", options).unwrap().remedy;
        assert_eq!(remedy(""), "set appendonly yes, or quarantine=on in every store URL");
        assert_eq!(remedy("layout=plain"), "set appendonly yes", "there is none");
    }
}
