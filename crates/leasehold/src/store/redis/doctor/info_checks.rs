//! The effect of INFO's facts on the promises: for the warnings on connecting, and for the findings
//! of a diagnosis.

use leasehold_core::StoreErrorKind;

use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::info::Info;
use crate::store::redis::options::RedisOptions;

/// The oldest usable version, because of `redis.acl_check_cmd`, ACLs in scripts and sharded
/// messages.
const OLDEST_REDIS: (u32, u32) = (7, 0);
const OLDEST_VALKEY: (u32, u32) = (7, 2);

/// The part of the memory limit up to which a server that evicts nothing causes no warning: nine
/// tenths.
const NEARLY_FULL: f64 = 0.9;

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{is}: {remedy}")]
pub(crate) struct Incompatible {
    pub(crate) kind: StoreErrorKind,
    pub(crate) topic: &'static str,
    pub(crate) is: String,
    pub(crate) remedy: &'static str,
}

impl Info {
    /// Why this server cannot be a primary of the store; `None` if it can.
    pub(crate) fn incompatibility(&self, in_cluster: bool) -> Option<Incompatible> {
        let refused = |kind, is: &str, remedy| {
            Some(Incompatible { kind, topic: "role", is: is.to_owned(), remedy })
        };
        let unsupported = |is, remedy| refused(StoreErrorKind::Unsupported, is, remedy);
        match self.field("redis_mode").or_else(|| self.field("server_mode")) {
            Some("sentinel") => {
                return unsupported(
                    "the server is a sentinel",
                    "write redis+sentinel://HOST:PORT,…/SERVICE, or give the primary itself",
                );
            }
            Some("cluster") if !in_cluster => {
                return unsupported(
                    "the server is a node of a cluster",
                    "begin the store URL with redis+cluster://",
                );
            }
            Some("standalone") if in_cluster => {
                return unsupported(
                    "the server is no node of a cluster",
                    "begin the store URL with redis://",
                );
            }
            _ => {}
        }
        // In a cluster, the server was the primary a moment ago, and the client finds the new one.
        if !in_cluster && self.is_replica() {
            // The replica may be promoted soon: a failover behind one address passes by itself.
            return refused(
                StoreErrorKind::Unreachable,
                "the server is a replica",
                "give the primary in the store URL",
            );
        }
        let (name, version) = self.version()?;
        let oldest = if name == "Valkey" { OLDEST_VALKEY } else { OLDEST_REDIS };
        (parse_version(version)? < oldest).then(|| Incompatible {
            kind: StoreErrorKind::Version,
            topic: "version",
            is: format!("the server is {name} {version}"),
            remedy: "leasehold needs Redis 7.0 or Valkey 7.2",
        })
    }

    /// The finding about locks on a full server.
    pub(crate) fn eviction(&self, place: &str) -> Option<Finding> {
        let policy = self.field("maxmemory_policy")?;
        let (limit, used) = (self.number("maxmemory"), self.number("used_memory"));
        let topic = Topic(place, "memory");
        let found = format!("maxmemory-policy is {policy}");
        let remedy = "set maxmemory-policy noeviction";
        Some(match (policy, limit) {
            ("noeviction", limit) if limit > 0 && used as f64 > limit as f64 * NEARLY_FULL => {
                let percent = used as f64 / limit as f64 * 100.0;
                topic.warning(
                    format!("{percent:.0} % of maxmemory are in use"),
                    "a full server refuses new locks",
                    "raise maxmemory",
                )
            }
            ("noeviction", _) => topic.ok(format!("{found}: no lock is deleted")),
            (_, 0) => topic.warning(
                format!("{found}, without a maxmemory"),
                "once a limit is set, a full server deletes locks, and two may hold the same",
                remedy,
            ),
            (_, _) => topic.danger(
                found,
                "a full server deletes locks, and two may hold the same",
                remedy,
            ),
        })
    }

    /// The finding about data that a restart forgets. With a quarantine, such a loss costs a delay,
    /// and breaks no promise.
    pub(crate) fn persistence(&self, place: &str, settings: &RedisOptions) -> Option<Finding> {
        let topic = Topic(place, "persistence");
        if self.field("aof_last_write_status").is_some_and(|status| status != "ok") {
            return Some(topic.danger(
                "the append-only file cannot be written",
                "new locks are refused, and a restart forgets who holds what",
                "make room on its disk, and look into the server's log",
            ));
        }
        match (self.field("aof_enabled")?, settings.quarantine().is_some()) {
            ("0", true) => Some(topic.ok(
                "there is no append-only file; after a restart the quarantine keeps newcomers out",
            )),
            ("0", false) => Some(topic.danger(
                "there is no append-only file",
                "a restart forgets who holds what, and somebody else may get a lock that is held",
                settings.or_quarantine("set appendonly yes"),
            )),
            (_, _) => None,
        }
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    fn kind(info: &str) -> Option<StoreErrorKind> {
        Info::from(info).incompatibility(false).map(|incompatible| incompatible.kind)
    }

    #[test]
    fn a_server_that_cannot_be_used_is_refused() {
        use StoreErrorKind::{Unreachable, Unsupported, Version};
        assert_eq!(kind("redis_version:7.0.15\r\nrole:master\r\n"), None);
        assert_eq!(kind("redis_version:6.2.14\r\nrole:master\r\n"), Some(Version));
        assert_eq!(kind("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n"), None);
        assert_eq!(kind("redis_version:7.2.4\r\nvalkey_version:7.1.0\r\n"), Some(Version));
        assert_eq!(kind("redis_version:7.0.15\r\nrole:slave\r\n"), Some(Unreachable));
        assert_eq!(kind("redis_mode:cluster\r\n"), Some(Unsupported));
        assert_eq!(kind("redis_mode:sentinel\r\n"), Some(Unsupported));
        assert_eq!(kind("something else"), None);
        let in_cluster = |info: &str| {
            Info::from(info).incompatibility(true).map(|incompatible| incompatible.kind)
        };
        assert_eq!(in_cluster("redis_mode:cluster\r\nrole:master\r\n"), None);
        assert_eq!(in_cluster("redis_mode:standalone\r\n"), Some(Unsupported));
    }

    #[test]
    fn eviction_is_a_danger_where_there_is_a_limit() {
        let level = |info: &str| Info::from(info).eviction("h:1").map(|finding| finding.level);
        assert_eq!(level("maxmemory_policy:noeviction\r\nmaxmemory:0\r\n"), Some(Level::Ok));
        assert_eq!(level("maxmemory_policy:allkeys-lru\r\nmaxmemory:0"), Some(Level::Warning));
        assert_eq!(level("maxmemory_policy:allkeys-lru\r\nmaxmemory:9"), Some(Level::Danger));
        let full = "maxmemory_policy:noeviction\r\nmaxmemory:100\r\nused_memory:95";
        assert_eq!(level(full), Some(Level::Warning));
        assert_eq!(level(""), None);
    }

    #[test]
    fn a_missing_append_only_file_is_a_danger_without_a_quarantine() {
        let finding = |info: &str, options: &str| {
            let settings = RedisOptions::from_url(&format!("redis://h?{options}")).unwrap();
            Info::from(info).persistence("h:1", &settings)
        };
        let level = |info, options| finding(info, options).map(|finding| finding.level);
        assert_eq!(level("aof_enabled:0", ""), Some(Level::Danger));
        assert_eq!(level("aof_enabled:0", "quarantine=on"), Some(Level::Ok));
        assert_eq!(level("aof_enabled:1", ""), None);
        let failed = "aof_enabled:1\r\naof_last_write_status:err";
        assert_eq!(level(failed, "quarantine=on"), Some(Level::Danger));
        let remedy = |options| finding("aof_enabled:0", options).unwrap().remedy;
        assert_eq!(remedy(""), "set appendonly yes, or quarantine=on in every store URL");
        assert_eq!(remedy("layout=plain"), "set appendonly yes", "there is none");
    }
}
