//! One look at the server on connecting: will it do, and what weakens a promise?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{FromRedisValue, Value};

use super::connection::Link;
use super::error::CLUSTER;

/// Clocks further apart than this are mentioned: 1 s, far above what NTP leaves.
const CLOCK_OFFSET: Duration = Duration::from_secs(1);

/// The words for the operator; nothing if all is well.
///
/// # Errors
///
/// When the server will not do: too old, a replica, a sentinel, a node of a cluster where none is
/// expected; or when it does not answer within the limit.
pub(super) async fn look(
    link: &Link,
    in_cluster: bool,
    limit: Duration,
) -> Result<Vec<String>, StoreError> {
    let server = link.server();
    let info = match link.ask_within(limit, &redis::cmd("INFO")).await {
        Ok(value) => value,
        Err(error) if error.kind() == StoreErrorKind::Denied && !error.may_have_executed() => {
            return Ok(vec![format!(
                "{server}: this user may not run INFO, so it is not known whether the server \
                 evicts locks: grant +info"
            )]);
        }
        Err(error) => return Err(error),
    };
    let text = match info {
        Value::VerbatimString { text, .. } => text,
        other => String::from_redis_value(other).unwrap_or_default(),
    };
    let info = Info(&text);
    info.refuse(server, in_cluster)?;
    let mut words = info.warn(server);
    words.extend(clock_offset(link, limit).await?);
    Ok(words)
}

/// What INFO says, line by line `name:value`.
struct Info<'a>(&'a str);

impl Info<'_> {
    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn refuse(&self, server: &str, in_cluster: bool) -> Result<(), StoreError> {
        let unsupported = |words: &str| {
            Err(StoreError::new(StoreErrorKind::Unsupported, format!("{server}: {words}")))
        };
        match self.field("redis_mode").or_else(|| self.field("server_mode")) {
            Some("cluster") if !in_cluster => {
                let words = "it is a node of a cluster: begin the store URL with";
                return unsupported(&format!("{words} {CLUSTER}"));
            }
            Some("sentinel") => return unsupported("it is a sentinel: give the primary itself"),
            _ => {}
        }
        if !in_cluster && self.field("role") == Some("slave") {
            return unsupported("it is a replica: give the primary in the store URL");
        }
        let (name, version, needed) = match self.field("valkey_version") {
            Some(version) => ("Valkey", Some(version), (7, 2)),
            None => ("Redis", self.field("redis_version"), (7, 0)),
        };
        let Some(version) = version else { return Ok(()) };
        if parse_version(version).is_some_and(|found| found < needed) {
            let words = format!(
                "{server}: it is {name} {version}: leasehold needs Redis 7.0 or Valkey 7.2"
            );
            return Err(StoreError::new(StoreErrorKind::Version, words));
        }
        Ok(())
    }

    fn warn(&self, server: &str) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(policy) = self.field("maxmemory_policy")
            && policy != "noeviction"
        {
            words.push(format!(
                "{server}: maxmemory-policy is {policy}, and an evicting server deletes locks: \
                 set noeviction"
            ));
        }
        if self.field("aof_enabled") == Some("0") {
            words.push(format!(
                "{server}: there is no append-only file, so a restart forgets who holds what: set \
                 appendonly yes"
            ));
        }
        words
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// How far the clocks are apart, if that is far. Leases do not depend on it; the order of tokens
/// across lost data does, and so does every time that an operator compares.
async fn clock_offset(link: &Link, limit: Duration) -> Result<Option<String>, StoreError> {
    let before = since_1970();
    let value = link.ask_within(limit, &redis::cmd("TIME")).await?;
    let after = since_1970();
    let Ok((seconds, micros)) = <(u64, u64)>::from_redis_value(value) else { return Ok(None) };
    let there = Duration::from_secs(seconds) + Duration::from_micros(micros);
    let (offset, direction) = if there > after {
        (there - after, "ahead of")
    } else {
        (before.saturating_sub(there), "behind")
    };
    let server = link.server();
    Ok((offset > CLOCK_OFFSET).then(|| {
        format!("{server}: its clock is {offset:.1?} {direction} this machine's: run NTP on both")
    }))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(info: &str) -> Option<StoreErrorKind> {
        Info(info).refuse("h:1", false).err().map(|error| error.kind())
    }

    #[test]
    fn a_server_that_will_not_do_is_refused() {
        use StoreErrorKind::{Unsupported, Version};
        assert_eq!(kind("redis_version:7.0.15\r\nrole:master\r\n"), None);
        assert_eq!(kind("redis_version:6.2.14\r\nrole:master\r\n"), Some(Version));
        assert_eq!(kind("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n"), None);
        assert_eq!(kind("redis_version:7.2.4\r\nvalkey_version:7.1.0\r\n"), Some(Version));
        assert_eq!(kind("redis_version:7.0.15\r\nrole:slave\r\n"), Some(Unsupported));
        assert_eq!(kind("redis_mode:cluster\r\n"), Some(Unsupported));
        assert_eq!(kind("redis_mode:sentinel\r\n"), Some(Unsupported));
        assert_eq!(kind("something else"), None);
    }

    #[test]
    fn eviction_and_a_missing_append_only_file_are_mentioned() {
        let words = Info("maxmemory_policy:allkeys-lru\r\naof_enabled:0\r\n").warn("h:1");
        assert!(words[0].contains("allkeys-lru") && words[1].contains("appendonly"), "{words:?}");
        assert!(Info("maxmemory_policy:noeviction\r\naof_enabled:1\r\n").warn("h:1").is_empty());
    }
}
