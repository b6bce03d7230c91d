//! The table of the options of a Redis store, with one row for each. A row gives the setter, the
//! option of a store URL, its range, its row in the manual and its name in errors.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::InvalidInput;

use super::login::{Login, Password, Secret};
use super::servers::Servers;
use super::values::{LayoutName, Replicas, Tls, invalid, replicas};
use crate::store::option_table::option_table;
use crate::store::option_value::Value;
use crate::store::quarantine_span::{QUARANTINES, QuarantineSpan};
use crate::store::span::{Range, TIMEOUTS};

/// How long opening a connection may take: 5 s, enough for two lost SYN packets and a slow name
/// server.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The range of `offset`: at most 10 s, the age at which the copy of a request is refused.
const OFFSETS: Range = (Duration::ZERO, Duration::from_secs(10));

/// The servers of a Redis store and its options: everything that a store URL can have, as values.
///
/// Opening the store refuses values out of range, and options that exclude each other, with the
/// same messages as for a URL. No `Debug` and no error shows a password. Nothing is taken from the
/// environment, unless [`from_url`](Self::from_url) reads it.
///
/// [The manual](crate::store::Redis::MANUAL) says what each option promises, costs and needs on the
/// server.
///
/// # Examples
///
/// ```no_run
/// use leasehold::store::{Redis, RedisOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn fetch_token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// let options = RedisOptions::standalone("locks.example", 6379)
///     .tls()
///     .ca("/etc/ssl/locks.pem")
///     .user("holder")
///     .password_from(|| async { Ok(fetch_token().await?.into()) })
///     .prefix("app:");
/// let store = Redis::open(options).await?;
/// let client = leasehold::Client::builder().store(store).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct RedisOptions(pub(crate) Settings);

option_table! {
    RedisOptions at Servers;
    beside {
        tls: Tls = Tls::Off;
        login: Login = Login::default();
        /// The password for sentinels.
        sentinel_password: Option<Password> = None;
        database: u32 = 0;
    }

    prefix: Option<String> = None; (text: impl Into<String>) => Some(text.into());
    "the beginning of all keys and channels, at most 64 bytes; with `layout=redisson` the \
     beginning of the names of locks, as from a `NameMapper`",
    "`lh:`; with `layout=redisson` nothing";

    connect_timeout: Duration = DEFAULT_CONNECT_TIMEOUT; (span: Duration) => span, within TIMEOUTS;
    "how long opening a connection may take, `10ms` to `60s`",
    "`5s`";

    timeout: Option<Duration> = None; (span: Duration) => Some(span), within TIMEOUTS;
    "how long one request may take, `10ms` to `60s`",
    "`500ms`; for an acquire in a quorum 1 % of its ttl, 5 to 50 ms";

    ca: Option<PathBuf> = None; (file: impl Into<PathBuf>) => Some(file.into());
    "a PEM file with the authorities to trust",
    "those of the system";

    cert: Option<PathBuf> = None; (file: impl Into<PathBuf>) => Some(file.into());
    "a PEM file with the client's certificate, beside `key`",
    "none";

    key: Option<PathBuf> = None; (file: impl Into<PathBuf>) => Some(file.into());
    "a PEM file with the client's private key, beside `cert`",
    "none";

    insecure: bool = false; (is_on: bool) => is_on;
    "`on` trusts any server, so that others may read and change what is sent",
    "`off`";

    layout: LayoutName = LayoutName::Native; (layout: LayoutName) => layout;
    "`plain`: the lock of the Redis documentation, shared with other programs; `redisson`: the \
     locks of Redisson",
    "`native`";

    fenced: bool = false; (is_on: bool) => is_on;
    "`on`, with `layout=redisson`: tokens are the counter of an `RFencedLock`",
    "`off`: tokens are the server's clock";

    sentinel_user: Option<Secret> = None; (name: impl Into<String>) => Some(name.into().into());
    "the user for sentinels; servers know the one before the `@`",
    "none";

    offset: Option<Duration> = None; (span: Duration) => Some(span), within OFFSETS;
    "how far apart the clocks of servers that take over from each other may be, up to `10s`",
    "`500ms` where a server may take over, else `0s`";

    replicas: Replicas = Replicas::None; (replicas: Replicas) => replicas;
    "how many replicas must have a grant before it counts: `none`, a number, `all`",
    "`none`";

    waitaof: bool = false; (is_on: bool) => is_on;
    "`on`: a grant counts once it is on the disks of the server and of those replicas",
    "`off`";

    /// `None` is `quarantine=off`.
    quarantine: QuarantineSpan = QuarantineSpan::Default; (span: Option<Duration>) => span.into(),
        within QUARANTINES;
    "how long nothing new is granted after a server lost its memory, `1s` to `24h`; `on` is `1m`",
    "`off`; on the nodes of a quorum `on`";
}

impl Value for LayoutName {
    fn read(_name: &str, text: String) -> Result<Self, InvalidInput> {
        match text.as_str() {
            "native" => Ok(Self::Native),
            "plain" => Ok(Self::Plain),
            "redisson" => Ok(Self::Redisson),
            _ => Err(invalid(format!(
                "the layout {text:?} in the store URL is not known: there are native, plain and \
                 redisson"
            ))),
        }
    }
}

impl Value for Replicas {
    fn read(_name: &str, text: String) -> Result<Self, InvalidInput> {
        match text.as_str() {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            number => Ok(Self::AtLeast(number.parse().map_err(|_| replicas(number))?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_a_row_for_each_option_and_no_other() {
        crate::store::option_table::assert_told(crate::store::MANUAL, TABLE);
    }
}
