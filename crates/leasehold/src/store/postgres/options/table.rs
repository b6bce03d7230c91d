//! The table of the options of a PostgreSQL store, with one row for each. A row gives the setter,
//! the option of a store URL, its range, its row in the manual and its name in errors.

use std::path::PathBuf;
use std::time::Duration;

use super::servers::{Login, Server};
use super::values::{CommitLevel, ListenAt, SslMode, Tls, Wake};
use crate::store::option_table::option_table;
use crate::store::quarantine_span::{QUARANTINES, QuarantineSpan};
use crate::store::span::{Range, TIMEOUTS};

/// How long one request may take: 2 s. That allows for a busy disk, and for the one second that a
/// client costs others if it stops while it has a mutex.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long opening a session may take: 5 s, enough for two lost SYN packets and a slow name
/// server.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The default number of sessions that carry requests: 4. Eight saturate a server with two cores.
const DEFAULT_CONNECTIONS: u32 = 4;

/// The largest difference between the clocks of servers that take over from each other: 500 ms.
const DEFAULT_OFFSET: Duration = Duration::from_millis(500);

/// The range of `offset`: at most 10 s, the age at which the copy of a request is refused.
const OFFSETS: Range = (Duration::ZERO, Duration::from_secs(10));

/// The range of the time after which fenced transactions are ended. A second is enough for a
/// commit, and a day is as long as any lease.
const ENDS: Range = (Duration::from_secs(1), Duration::from_hours(24));

/// The servers of a PostgreSQL store and its options: everything that a store URL can have, as
/// values.
///
/// Opening the store refuses values out of range, and options that exclude each other, with the
/// same messages as for a URL. No `Debug` and no error shows a password. Nothing is taken from the
/// environment, unless [`from_url`](Self::from_url) reads it.
///
/// # Examples
///
/// ```no_run
/// use leasehold::store::{Postgres, PostgresOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = PostgresOptions::new("db.example", 5432)
///     .user("app")
///     .password("secret")
///     .database("shop")
///     .connections(8);
/// let store = Postgres::open(options).await?;
/// let client = leasehold::Client::builder().store(store).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct PostgresOptions(pub(crate) Settings);

option_table! {
    PostgresOptions at Vec<Server>;
    beside {
        login: Login = Login::default();
        database: Option<String> = None;
        tls: Tls = Tls::FromOptions;
    }

    schema: String = "leasehold".to_owned(); (name: impl Into<String>) => name.into();
    "the schema with the tables and functions: small letters, digits and `_`",
    "`leasehold`";

    connect_timeout: Duration = DEFAULT_CONNECT_TIMEOUT; (span: Duration) => span, within TIMEOUTS;
    "how long opening a session may take, `10ms` to `60s`",
    "`5s`";

    timeout: Duration = DEFAULT_TIMEOUT; (span: Duration) => span, within TIMEOUTS;
    "how long one request may take, `10ms` to `60s`",
    "`2s`";

    connections: u32 = DEFAULT_CONNECTIONS; (most: u32) => most;
    "how many sessions carry requests at the most, 1 to 64; they are closed after 30 s of rest",
    "`4`";

    wake: Wake = Wake::Listen; (how: Wake) => how;
    "how waiters learn of their turn: `listen`, on one more session while somebody waits, or \
     `poll`, by asking once a second",
    "`listen`";

    listen: Option<ListenAt> = None; (server: ListenAt) => Some(server);
    "`HOST[:PORT]`: the server itself, to listen there, where the URL names a pooler",
    "the server of the URL";

    commit: CommitLevel = CommitLevel::On; (level: CommitLevel) => level;
    "when a grant counts, as `synchronous_commit`: `on`, `local`, `remote_write`, `remote_apply`, \
     `off`",
    "`on`";

    /// `None` is `quarantine=off`. If a lease is longer than the quarantine, the quarantine becomes
    /// as long as the lease, for all clients.
    quarantine: QuarantineSpan = QuarantineSpan::Default; (span: Option<Duration>) => span.into(),
        within QUARANTINES;
    "for at least how long nothing new is granted once a server may have forgotten something: \
     `1s` to `24h`, `on` (`1m`) or `off`",
    "`on`";

    offset: Duration = DEFAULT_OFFSET; (span: Duration) => span, within OFFSETS;
    "how far apart the clocks of servers that take over from each other may be, up to `10s`",
    "`500ms`";

    end_fenced: Option<Duration> = None; (span: Duration) => Some(span), within ENDS;
    "the time after the end of a lease at which its fenced transaction, if it is still open, is \
     ended: `1s` to `24h`",
    "without limit";

    sslmode: Option<SslMode> = None; (mode: SslMode) => Some(mode);
    "`disable`, `require` (encrypted, with anybody), `verify-ca`, `verify-full`",
    "`verify-full`; `disable` for sockets and loopback";

    sslrootcert: Option<PathBuf> = None; (file: impl Into<PathBuf>) => Some(file.into());
    "a PEM file with the authorities to trust",
    "those of the system";

    sslcert: Option<PathBuf> = None; (file: impl Into<PathBuf>) => Some(file.into());
    "a PEM file with the client's certificate, beside `sslkey`",
    "none";

    sslkey: Option<PathBuf> = None; (file: impl Into<PathBuf>) => Some(file.into());
    "a PEM file with the client's private key, beside `sslcert`",
    "none";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_a_row_for_each_option_and_no_other() {
        crate::store::option_table::assert_told(crate::store::postgres::Postgres::MANUAL, TABLE);
    }
}
