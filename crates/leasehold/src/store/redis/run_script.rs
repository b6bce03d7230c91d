//! Scripts of other crates on the servers of a store.

use leasehold_core::StoreError;
use redis::Value;

use super::Redis;
use super::connection::call::{Call, Request, ScriptText};
use super::layout::reply::unexpected_reply;

/// A Lua script of another crate, for [`Redis::run_script`].
#[derive(Debug)]
pub struct RedisScript(ScriptText);

impl RedisScript {
    /// A script as EVAL takes it, with its flags in the first line: `#!lua flags=…`.
    pub fn new(source: impl Into<String>) -> Self {
        Self(ScriptText::new(source.into()))
    }

    /// The text of the script.
    pub fn source(&self) -> &str {
        &self.0.source
    }
}

/// One item of the list that a script replies with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisItem {
    /// A string.
    Bytes(Vec<u8>),
    /// A whole number: Redis drops the fraction of a number of Lua.
    Number(i64),
}

impl Redis {
    /// The beginning of all keys of this store: `prefix=` in its URL, or `lh:` by default.
    ///
    /// In the native layout, no key of a lock has a `%` and a letter after this prefix. So keys
    /// such as `lh:%stock:…` are free for the data of other crates.
    pub fn key_prefix(&self) -> &str {
        self.settings.prefix()
    }

    /// Runs a script on the server that serves its keys, over the connections of this store. It
    /// finds that server, and loads the script if necessary. In a cluster all keys must have the
    /// same hash tag.
    ///
    /// The reply of the primary counts immediately. `replicas=` and `quarantine=` only apply to
    /// grants of locks, and have no effect here.
    ///
    /// This is for a crate that keeps its own data beside the locks, like `leasehold-data`.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] is false only if the script was certainly not run.
    /// [`Corrupt`](leasehold_core::StoreErrorKind::Corrupt) for a reply that is not a list of
    /// strings and whole numbers.
    ///
    /// # Cost
    ///
    /// One round trip; two more if the server does not have the script.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the script may or may not run.
    pub async fn run_script(
        &self,
        script: &'static RedisScript,
        keys: Vec<Vec<u8>>,
        args: Vec<Vec<u8>>,
    ) -> Result<Vec<RedisItem>, StoreError> {
        self.topology()?.run(&Call::new(Request::new(&script.0).with(keys, args), items)).await
    }
}

fn items(reply: Value) -> Result<Vec<RedisItem>, StoreError> {
    let Value::Array(values) = reply else { return Err(unexpected_reply()) };
    let item = |value| match value {
        Value::BulkString(bytes) => Ok(RedisItem::Bytes(bytes)),
        Value::Int(number) => Ok(RedisItem::Number(number)),
        _ => Err(unexpected_reply()),
    };
    values.into_iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_strings_and_numbers_is_a_reply_and_nothing_else_is() {
        let text = Value::BulkString(b"settled".to_vec());
        let reply = Value::Array(vec![Value::Int(-1), text]);
        let read = [RedisItem::Number(-1), RedisItem::Bytes(b"settled".to_vec())];
        assert_eq!(items(reply).unwrap(), read);
        for other in [Value::Nil, Value::Okay, Value::Array(vec![Value::Nil])] {
            assert!(items(other).unwrap_err().may_have_executed());
        }
    }
}
