//! The role that a server reports.

use std::collections::HashMap;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{FromRedisValue, Value};

use crate::store::redis::connection::Connection;

/// Asks the server whether it is a primary now, and gives the connection up if it is not.
///
/// HELLO reports the role without the extra right that ROLE would need.
///
/// # Errors
///
/// If the server is not a primary, or does not answer. Nothing was executed.
pub(crate) async fn expect_primary(connection: &Connection) -> Result<(), StoreError> {
    let reply = connection
        .ask(&redis::cmd("HELLO"))
        .await
        .map_err(|error| StoreError::new(error.kind(), error.to_string()))?;
    match field(reply, "role").as_deref() {
        Some("master") => Ok(()),
        role => {
            connection.retire();
            let is = if role.is_some() { "a replica" } else { "no primary" };
            let why =
                format!("{}: the server is {is}: a failover may be under way", connection.server());
            Err(StoreError::new(StoreErrorKind::Unreachable, why))
        }
    }
}

/// A text field of a map.
pub(crate) fn field(map: Value, name: &str) -> Option<String> {
    let value = HashMap::<String, Value>::from_redis_value(map).ok()?.remove(name)?;
    String::from_redis_value(value).ok()
}
