//! The protected values: they are read, and written some time later, under a lock and with its
//! token. They are on a separate server without faults, which refuses a write with a lower token
//! than an earlier one.

use leasehold_testkit::must;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

/// A value and the highest token so far. Tokens are texts of one length, because numbers of Lua are
/// not wide enough.
const READ: &str = "
    local token = redis.call('HGET', KEYS[1], 'token')
    if token and token > ARGV[1] then return nil end
    redis.call('HSET', KEYS[1], 'token', ARGV[1])
    return redis.call('HGET', KEYS[1], 'value') or '0'";

const WRITE: &str = "
    if redis.call('HGET', KEYS[1], 'token') > ARGV[1] then return 0 end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
    return 1";

/// A connection to the protected values.
#[derive(Clone)]
pub(crate) struct Register(MultiplexedConnection);

impl Register {
    pub(crate) async fn connect(port: u16) -> Self {
        Self(connect(port).await)
    }

    /// The value of a name; none for a token that is too low.
    pub(crate) async fn read(&mut self, name: &str, token: u64) -> Option<u64> {
        let mut read = redis::cmd("EVAL");
        read.arg(READ).arg(1).arg(name).arg(text(token));
        must(read.query_async(&mut self.0).await)
    }

    /// Writes a value. Returns whether it was written.
    pub(crate) async fn write(&mut self, name: &str, token: u64, value: u64) -> bool {
        let mut write = redis::cmd("EVAL");
        write.arg(WRITE).arg(1).arg(name).arg(text(token)).arg(value);
        must(write.query_async(&mut self.0).await)
    }
}

/// A connection on which every reply is awaited: it comes, however long this process was stopped.
pub(crate) async fn connect(port: u16) -> MultiplexedConnection {
    let server = must(redis::Client::open(format!("redis://127.0.0.1:{port}/")));
    let patient = AsyncConnectionConfig::new();
    let patient = patient.set_connection_timeout(None).set_response_timeout(None);
    must(server.get_multiplexed_async_connection_with_config(&patient).await)
}

fn text(token: u64) -> String {
    format!("{token:020}")
}
