//! The options of a PostgreSQL store, as values and as a URL.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::text::parse_duration;

use crate::store::options::{self, CONNECT_TIMEOUT, Quarantine, Server, text, word};
use crate::store::place::{Environment, invalid, of_process};
use crate::store::secret::{Login, Secret};
use crate::store::tls::{self, Tls, TlsConfig, TlsFiles, Trust};
use crate::store::url::{self, Url, decode};

/// The default port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;

/// How long one request may take: 2 s. That allows for a busy disk, and for the one second that a
/// client costs others if it stops while it has a mutex.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// The default number of sessions that carry requests: 4. Eight saturate a server with two cores.
const DEFAULT_CONNECTIONS: u32 = 4;

/// The largest number of sessions of a process that carry requests: 64, which keep any server busy.
const MAX_CONNECTIONS: u32 = 64;

const SCHEMA: &str = "leasehold";

/// The longest name of a schema: the server cuts longer names off.
const MAX_SCHEMA_BYTES: usize = 63;

const SSL_MODES: [(&str, SslMode); 4] = [
    ("disable", SslMode::Disable),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

/// The check of a server's certificate, in libpq's words. `allow` and `prefer` are left out,
/// because they protect against nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS with any server that answers. That server may be an impostor, who can then read and
    /// change everything.
    Require,
    /// A certificate from a trusted authority, for any name.
    VerifyCa,
    /// A certificate from a trusted authority for the host of the URL.
    VerifyFull,
}

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
/// let mut options = PostgresOptions::from_url("postgres://app@db.example/shop")?;
/// options.login.password = Some("secret".into());
/// options.connections = 8;
/// let store = Postgres::open(options).await?;
/// let client = leasehold::Client::builder().store(store).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until a store is opened with them"]
pub struct PostgresOptions {
    /// The servers. The client uses the server that is the primary.
    pub servers: Vec<Server>,
    /// The role to log in as, and its password. A role is needed.
    pub login: Login,
    /// The database. Default: the one with the name of the role.
    pub database: Option<String>,
    /// The schema with the tables and functions: small letters, digits and `_`. Default:
    /// `leasehold`.
    pub schema: String,
    /// How long one request may take, 10 ms to 60 s. Opening a session may take 5 s, or this if it
    /// is longer. Default: 2 s.
    pub timeout: Duration,
    /// How many sessions carry the requests of a process at the most, 1 to 64. Default: 4.
    pub connections: u32,
    /// The server itself, to listen there, if `servers` names a pooler. Default: `servers`.
    pub listen: Option<Server>,
    /// Whether nothing new is granted for a minute, or for as long as the longest lease, once a
    /// server may have forgotten something. Default: on.
    pub quarantine: Quarantine,
    /// The check of a server's certificate. Default: in full, and no TLS for sockets and loopback.
    pub sslmode: Option<SslMode>,
    /// A PEM file with the authorities to trust. Default: those of the system.
    pub sslrootcert: Option<PathBuf>,
    /// A PEM file with the client's certificate, beside `sslkey`. Default: none.
    pub sslcert: Option<PathBuf>,
    /// A PEM file with the client's private key, beside `sslcert`. Default: none.
    pub sslkey: Option<PathBuf>,
    /// A TLS configuration of the program, instead of the three files. Default: none.
    pub tls_config: Option<TlsConfig>,
}

impl PostgresOptions {
    /// Reads a store URL. A password that is not in it comes from the environment
    /// (`LEASEHOLD_PASSWORD`, `LEASEHOLD_PASSWORD_FILE`).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the part of the URL that is wrong, without showing a password.
    pub fn from_url(url: &str) -> Result<Self, InvalidInput> {
        Self::read(url, Some(&of_process))
    }

    /// Reads a URL. Without an environment, passwords may be missing, and options may exclude each
    /// other.
    pub(crate) fn read(
        url: &str,
        environment: Option<Environment<'_>>,
    ) -> Result<Self, InvalidInput> {
        let example = "postgres://USER@HOST/DATABASE";
        let Url { scheme, login, hosts, path, mut query } = Url::read(url, example)?;
        if !["postgres", "postgresql"].contains(&scheme) {
            return Err(url::unknown(scheme, example));
        }
        let number = |text: &str| text.parse().map_err(|_| invalid("it is not a number"));
        let mut read = Self {
            servers: url::servers(hosts, DEFAULT_PORT)?,
            login,
            database: (!path.is_empty()).then(|| decode("database", path)).transpose()?,
            schema: query.take("schema", text)?.unwrap_or_else(|| SCHEMA.to_owned()),
            timeout: query.take("timeout", parse_duration)?.unwrap_or(DEFAULT_TIMEOUT),
            connections: query.take("connections", number)?.unwrap_or(DEFAULT_CONNECTIONS),
            listen: query.take("listen", |text| url::server(text, DEFAULT_PORT))?,
            quarantine: query.take("quarantine", Quarantine::read)?.unwrap_or_default(),
            sslmode: query.take("sslmode", word(&SSL_MODES))?,
            sslrootcert: query.take("sslrootcert", text)?,
            sslcert: query.take("sslcert", text)?,
            sslkey: query.take("sslkey", text)?,
            tls_config: None,
        };
        query.end()?;
        if let Some(environment) = environment {
            url::complete(&mut read.login, environment)?;
            read.check()?;
        }
        Ok(read)
    }

    /// What selects the locks on the servers.
    pub(crate) fn selection(&self) -> String {
        let role = self.login.user.as_ref().map(Secret::reveal);
        let database = self.database.as_deref().or(role).unwrap_or_default();
        format!("postgres {} {database}", self.schema)
    }

    /// Refuses values that are out of range or exclude each other.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let off = (self.sslmode == Some(SslMode::Disable)).then_some("`sslmode` is disable");
        tls::check(&self.files(), self.tls_config.is_some(), off)?;
        let is_of_schema = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = self.schema.starts_with(|c: char| !c.is_ascii_digit());
        let is_schema = begins && self.schema.chars().all(is_of_schema);
        let refusals = [
            (self.servers.is_empty(), "there is no host: write postgres://USER@HOST[:PORT]"),
            (self.login.user.is_none(), "there is no user: write postgres://USER[:PASSWORD]@HOST"),
            (
                !(1..=MAX_CONNECTIONS).contains(&self.connections),
                "`connections` is out of range: give 1 to 64",
            ),
            (
                !is_schema || self.schema.len() > MAX_SCHEMA_BYTES,
                "`schema` has at most 63 small letters, digits and `_`, and begins with no digit",
            ),
            (
                self.sslmode == Some(SslMode::Require) && self.sslrootcert.is_some(),
                "sslmode=require trusts any server, so `sslrootcert` has no effect: write \
                 sslmode=verify-full, or leave one of them out",
            ),
        ];
        options::check(self.timeout, &refusals)
    }

    /// How long opening a session may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        CONNECT_TIMEOUT.max(self.timeout)
    }

    /// The least time for which nothing new is granted once a server may have forgotten something.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        self.quarantine.span(true)
    }

    /// The check of a server's certificate.
    pub(crate) fn mode_for(&self, server: &Server) -> SslMode {
        let has_tls =
            self.tls_config.is_some() || self.sslrootcert.is_some() || self.sslcert.is_some();
        match self.sslmode {
            _ if server.is_socket() => SslMode::Disable,
            Some(mode) => mode,
            None if !has_tls && server.is_local() => SslMode::Disable,
            None => SslMode::VerifyFull,
        }
    }

    /// The TLS configuration for a server; `None` without TLS.
    pub(crate) fn tls_for(&self, server: &Server) -> Result<Option<Tls>, InvalidInput> {
        let trust = match self.mode_for(server) {
            SslMode::Disable => return Ok(None),
            SslMode::Require => Trust::Anybody,
            SslMode::VerifyCa => Trust::AnyName,
            SslMode::VerifyFull => Trust::Name,
        };
        Tls::new(self.tls_config.as_ref(), trust, self.files()).map(Some)
    }

    fn files(&self) -> TlsFiles {
        let Self { sslrootcert, sslcert, sslkey, .. } = self.clone();
        [("sslrootcert", sslrootcert), ("sslcert", sslcert), ("sslkey", sslkey)]
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn parse(url: &str) -> Result<PostgresOptions, String> {
        PostgresOptions::read(url, Some(&|_| None)).map_err(|refusal| refusal.why)
    }

    #[test]
    fn the_manual_has_a_row_for_each_option_and_no_other() {
        let refusal = parse("postgres://u@h?prefix=a").map(drop).unwrap_err();
        options::assert_told(crate::store::Postgres::MANUAL, &refusal);
    }

    #[test]
    fn a_url_names_a_user_servers_and_a_database() {
        let options = parse("postgres://bob:p%40ss@a:7000,[::1]/shop").unwrap();
        let shown: Vec<_> = options.servers.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a:7000", "[::1]:5432"]);
        assert_eq!(options.database.as_deref(), Some("shop"));
        let password = options.login.password.unwrap().fetch().now_or_never().unwrap().unwrap();
        assert_eq!(password.reveal(), "p@ss");
        let socket = parse("postgresql://u@%2Frun%2Fpostgresql").unwrap();
        assert!(socket.servers[0].is_socket() && socket.database.is_none());
    }

    #[test]
    fn every_option_is_read() {
        let options = parse(
            "postgres://u@h/d?schema=locks&timeout=1s&connections=1&listen=direct:6000&\
             quarantine=off&sslmode=verify-ca&sslrootcert=/a.pem&sslcert=/b.pem&sslkey=/c.pem",
        )
        .unwrap();
        assert_eq!((options.schema.as_str(), options.connections), ("locks", 1));
        assert_eq!((options.timeout, options.quarantine()), (Duration::from_secs(1), None));
        assert_eq!(options.listen.unwrap().to_string(), "direct:6000");
        assert_eq!(options.sslmode, Some(SslMode::VerifyCa));
        let files = [options.sslrootcert, options.sslcert, options.sslkey];
        assert_eq!(files, ["/a.pem", "/b.pem", "/c.pem"].map(|file| Some(file.into())));
    }

    #[test]
    fn tls_is_full_unless_nothing_leaves_the_machine() {
        let mode = |url: &str| parse(url).map(|it| it.mode_for(&it.servers[0])).unwrap();
        assert_eq!(mode("postgres://u@db.example"), SslMode::VerifyFull);
        for local in ["127.0.0.1", "localhost", "[::1]", "%2Frun"] {
            assert_eq!(mode(&format!("postgres://u@{local}")), SslMode::Disable, "{local}");
        }
        assert_eq!(mode("postgres://u@127.0.0.1?sslrootcert=/a.pem"), SslMode::VerifyFull);
        assert_eq!(mode("postgres://u@h?sslmode=require"), SslMode::Require);
    }

    #[test]
    fn each_wrong_part_is_named() {
        for (url, part) in [
            ("postgres:h", "`://`"),
            ("redis://u@h", "\"redis\""),
            ("postgres://u@", "no host"),
            ("postgres://h", "no user"),
            ("postgres://u@h:0", "the port"),
            ("postgres://u@h,h", "h:5432 twice"),
            ("postgres://u@h?prefix=a", "\"prefix\""),
            ("postgres://u@h?connections=0", "`connections`"),
            ("postgres://u@h?connections=x", "not a number"),
            ("postgres://u@h?schema=Locks", "`schema`"),
            ("postgres://u@h?schema=1a", "`schema`"),
            ("postgres://u@h?sslmode=prefer", "`sslmode`"),
            ("postgres://u@h?sslmode=disable&sslcert=/a&sslkey=/b", "`sslmode` is disable"),
            ("postgres://u@h?sslcert=/a", "give both"),
            ("postgres://u@h?sslmode=require&sslrootcert=/a", "verify-full"),
            ("postgres://u@h?quarantine=soon", "`quarantine`"),
            ("postgres://u@h?timeout=5ms", "`timeout`"),
            ("postgres://u@h?timeout=1s&timeout=2s", "twice"),
        ] {
            let why = parse(url).map(drop).unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
            assert!(!why.contains('\n'), "{url}: {why}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        use crate::store::shown_url;

        for url in ["postgres://u:hunter/2@h", "postgres://u:hunter@2@h", "postgres://u:hunter?2@h"]
        {
            assert!(!parse(url).map(drop).unwrap_err().contains("hunter"), "{url}");
            assert_eq!(shown_url(url), "postgres:***");
        }
        assert_eq!(shown_url("postgresql://u:hunter2@h/d"), "postgresql://u:***@h/d");
        let options = parse("postgres://hunter2:hunter2@h").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
