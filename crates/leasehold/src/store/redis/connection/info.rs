//! The facts about a server from INFO.

use std::time::Duration;

use redis::{FromRedisValue, Value};

use crate::store::redis::options::Address;

/// The text of INFO, with a line `name:value` for each fact.
#[derive(Clone, Debug)]
pub(crate) struct Info(String);

/// A replica, as its primary sees it.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) address: Address,
    pub(crate) state: String,
    /// The time since its last acknowledgement.
    pub(crate) lag: Duration,
}

impl Info {
    /// Reads the reply to INFO, or to a section of it.
    pub(crate) fn of(reply: Value) -> Self {
        Self(match reply {
            Value::VerbatimString { text, .. } => text,
            other => String::from_redis_value(other).unwrap_or_default(),
        })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.field(name).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// The name of the server and its version.
    pub(crate) fn version(&self) -> Option<(&'static str, &str)> {
        match self.field("valkey_version") {
            Some(version) => Some(("Valkey", version)),
            None => Some(("Redis", self.field("redis_version")?)),
        }
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.field("role") == Some("slave")
    }

    /// The replicas of the server.
    pub(crate) fn followers(&self) -> Vec<Follower> {
        let count = self.number("connected_slaves");
        // The server may report a wrong number, so the loop ends at the first replica that is
        // missing.
        (0..count)
            .map_while(|number| self.field(&format!("slave{number}")))
            .filter_map(|line| {
                let part = |name: &str| {
                    line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
                };
                let (host, port) = (part("ip")?.to_owned(), part("port")?.parse().ok()?);
                let lag = part("lag").and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
                Some(Follower {
                    address: Address { host, port },
                    state: part("state")?.to_owned(),
                    lag: Duration::from_secs(lag),
                })
            })
            .collect()
    }
}

#[cfg(test)]
impl From<&str> for Info {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_those_that_are_listed_however_many_there_are_said_to_be() {
        let listed = "slave0:ip=10.0.0.1,port=6379,state=online,offset=1,lag=0";
        let info = Info::from(&*format!("connected_slaves:{}\r\n{listed}\r\n", u64::MAX));
        assert_eq!(info.followers().len(), 1);
    }
}
