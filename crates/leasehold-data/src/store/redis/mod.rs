//! The data parts on Redis or Valkey: one script per kind of step, over the connections of a lock
//! store.

mod call;
#[cfg(test)]
mod differential;
mod reply;
mod script;

use futures_util::future::BoxFuture;
use leasehold::error::StoreError;
use leasehold::store::Redis;

use super::data_store::DataStore;
use crate::model::{Answer, Request};

/// The rights that a program needs to use the data parts, as `ACL SETUSER` takes them after a name
/// and a password. They first remove all other rights. For a user that also holds locks, give the
/// rights of a holder ([`Redis::HOLDER_RIGHTS`]), followed by the words of this constant that begin
/// with `+`. If the URL has a `prefix=`, put the prefix before the key pattern; if it has a
/// database, add `+select`.
pub const REDIS_RIGHTS: &str = "resetkeys ~lh:%* -@all +evalsha +script|load +time \
    +ping +info +hget +hmget +hset +hdel +zadd +zrange +zrem";

impl DataStore for Redis {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let call = call::call(self.key_prefix(), &request);
            reply::answer(self.run_script(call.script, call.keys, call.args).await?)
        })
    }
}
