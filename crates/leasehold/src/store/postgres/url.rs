//! Reads `postgres:` URLs.

use leasehold_core::InvalidInput;
use leasehold_core::text::split_scheme;

use super::options::{DEFAULT_PORT, Login, PostgresOptions, Server, Settings};
use crate::store::secret::Password;
use crate::store::url_parts::{self, check_delimiters, decode, invalid};

impl PostgresOptions {
    /// Reads a store URL. A password that is not in it comes from the environment
    /// (`LEASEHOLD_PASSWORD`, `LEASEHOLD_PASSWORD_FILE`).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the part of the URL that is wrong, without showing a password.
    pub fn from_url(url: &str) -> Result<Self, InvalidInput> {
        Self::from_url_with(url, |name| std::env::var(name).ok())
    }

    /// Like [`from_url`](Self::from_url), but passwords come from `environment` instead of this
    /// process's environment. That function gets the names of the variables.
    ///
    /// # Errors
    ///
    /// The same as [`from_url`](Self::from_url).
    pub fn from_url_with(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, InvalidInput> {
        let mut settings = read(url)?;
        if settings.login.password.is_none() {
            settings.login.password = url_parts::password(environment)?.map(Password::Fixed);
        }
        settings.check()?;
        Ok(Self(settings))
    }
}

/// Whether a URL with this scheme is for a PostgreSQL store.
pub(crate) fn is_named_by(scheme: &str) -> bool {
    matches!(scheme, "postgres" | "postgresql")
}

/// Reads the URL itself.
fn read(url: &str) -> Result<Settings, InvalidInput> {
    let rest = split_scheme(url).and_then(|(_, rest)| rest.strip_prefix("//"));
    let rest = rest.ok_or_else(|| {
        invalid("the store URL has no `://` after its scheme: write postgres://USER@HOST/DATABASE")
    })?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    check_delimiters(place, query)?;
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let (login, hosts) = url_parts::split_login(authority)?;
    let server = |text| {
        let (host, port) = url_parts::host("postgres", text, DEFAULT_PORT)?;
        Ok(Server { host, port })
    };
    let mut settings = Settings::of(hosts.split(',').map(server).collect::<Result<_, _>>()?);
    settings.login = Login { user: login.user, password: login.password.map(Password::Fixed) };
    if !database.is_empty() {
        settings.database = Some(decode("database", database)?);
    }
    for (name, value) in url_parts::options(query)? {
        settings.read(name, value)?;
    }
    settings.check_values()?;
    Ok(settings)
}

/// A URL as it may be shown, if it can be read.
pub(crate) fn without_password(url: &str) -> Option<String> {
    let _settings = read(url).ok()?;
    url_parts::without_password(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::postgres::options::{CommitLevel, SslMode, Wake};

    fn parse(url: &str) -> Result<Settings, String> {
        PostgresOptions::from_url_with(url, |_| None)
            .map(|options| options.0)
            .map_err(|refusal| refusal.why)
    }

    #[test]
    fn a_url_names_a_user_servers_and_a_database() {
        let settings = parse("postgres://bob:p%40ss@a:7000,[::1]/shop").unwrap();
        let shown: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a:7000", "[::1]:5432"]);
        assert_eq!(settings.database.as_deref(), Some("shop"));
        assert!(
            matches!(settings.login.password, Some(Password::Fixed(it)) if it.reveal() == "p@ss")
        );
        let socket = parse("postgresql://u@%2Frun%2Fpostgresql").unwrap();
        assert!(socket.servers[0].is_socket() && socket.database.is_none());
    }

    #[test]
    fn every_option_is_read() {
        let settings = parse(
            "postgres://u@h/d?schema=locks&connect_timeout=1s&timeout=1s&\
             connections=1&wake=poll&listen=direct:6000&commit=remote_apply&offset=1s&\
             sslmode=verify-ca&sslrootcert=/a.pem&sslcert=/b.pem&sslkey=/c.pem",
        )
        .unwrap();
        assert_eq!((settings.schema.as_str(), settings.connections), ("locks", 1));
        assert_eq!((settings.wake, settings.commit), (Wake::Poll, CommitLevel::RemoteApply));
        assert_eq!(settings.listen.unwrap().0.to_string(), "direct:6000");
        assert_eq!(settings.sslmode, Some(SslMode::VerifyCa));
    }

    #[test]
    fn tls_is_full_unless_nothing_leaves_the_machine() {
        let mode = |url: &str| {
            let settings = parse(url).unwrap();
            settings.mode_for(&settings.servers[0])
        };
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
            ("postgres://u@h?wake=up", "listen or poll"),
            ("postgres://u@h?commit=yes", "`commit`"),
            ("postgres://u@h?quarantine=1ms", "`quarantine`"),
            ("postgres://u@h?timeout=5ms", "`timeout`"),
            ("postgres://u@h?offset=11s", "`offset`"),
            ("postgres://u@h?timeout=1s&timeout=2s", "twice"),
        ] {
            let why = parse(url).map(drop).unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
            assert!(!why.contains('\n'), "{url}: {why}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in ["postgres://u:hunter/2@h", "postgres://u:hunter@2@h", "postgres://u:hunter?2@h"]
        {
            assert!(!parse(url).map(drop).unwrap_err().contains("hunter"), "{url}");
            assert_eq!(without_password(url), None);
        }
        let shown = without_password("postgresql://u:hunter2@h/d");
        assert_eq!(shown.as_deref(), Some("postgresql://u:***@h/d"));
        let settings = parse("postgres://hunter2:hunter2@h").unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
