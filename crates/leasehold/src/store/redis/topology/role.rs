//! What a server says it is.

use leasehold_core::{StoreError, StoreErrorKind};
use redis::Value;

use crate::store::redis::connection::Connection;

/// Asks the server whether it is a primary now, and gives the connection up if it is not.
///
/// HELLO tells it without an extra right, which ROLE would need.
///
/// # Errors
///
/// When it is not one, or does not answer. Nothing was executed.
pub(crate) async fn expect_primary(connection: &Connection) -> Result<(), StoreError> {
    let reply = connection
        .ask(&redis::cmd("HELLO"))
        .await
        .map_err(|error| StoreError::new(error.kind(), error.to_string()))?;
    match field(&reply, "role").as_deref() {
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

/// A text in a map.
pub(crate) fn field(map: &Value, name: &str) -> Option<String> {
    let (_, value) = map.as_map_iter()?.find(|(key, _)| text(key).as_deref() == Some(name))?;
    text(value)
}

/// The text that a value is.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}
