//! The settings of a server that INFO does not have.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::StoreError;
use redis::FromRedisValue;

use crate::store::redis::connection::Connection;

const NAMES: [&str; 6] = [
    "appendfsync",
    "bind",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "protected-mode",
    "stop-writes-on-bgsave-error",
];

/// The settings by their names; empty if the user may not read them.
#[derive(Debug, Default)]
pub(crate) struct ServerConfig(HashMap<String, String>);

impl ServerConfig {
    pub(crate) async fn read(connection: &Connection, limit: Duration) -> Result<Self, StoreError> {
        let ask = redis::cmd("CONFIG").arg("GET").arg(&NAMES).to_owned();
        let found = connection.ask_within(limit, &ask).await?;
        Ok(Self(HashMap::from_redis_value(found).unwrap_or_default()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
