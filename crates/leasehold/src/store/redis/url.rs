//! What a `redis:` URL says.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::Invalid;
use leasehold_core::model::DEFAULT_RETENTION;
use leasehold_core::text::{parse_duration, percent_decode};

/// What the keys of leasehold begin with.
const DEFAULT_PREFIX: &str = "lh:";

/// Longest prefix: 64 bytes, since every key carries it.
const MAX_PREFIX_BYTES: usize = 64;

/// How long opening a connection may take: 5 s, two lost SYN packets and a slow name server.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one request may take: 500 ms, which leaves several tries within a third of the
/// shortest usual ttl; a healthy server answers within one.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// What a timeout may be: below 10 ms a busy machine looks like a dead server.
const TIMEOUTS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(60));

/// What the retention may be: from the time it takes to notice a lost reply to the longest lease.
const RETENTIONS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24));

const DEFAULT_PORT: u16 = 6379;

/// Environment variables that carry the password, so that no URL has to.
const PASSWORD: &str = "LEASEHOLD_PASSWORD";
const PASSWORD_FILE: &str = "LEASEHOLD_PASSWORD_FILE";

/// A text that no message and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    /// The text itself, for the server only.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A host by name or number, and a port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// How the server is known and the client made known to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Whom to trust instead of the system's authorities.
    pub(super) authority: Option<PathBuf>,
    /// The client's certificate.
    pub(super) certificate: Option<PathBuf>,
    /// The client's key.
    pub(super) key: Option<PathBuf>,
    /// Whether any server is believed.
    pub(super) insecure: bool,
}

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) tls: Option<TlsFiles>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: u32,
    pub(super) prefix: String,
    pub(super) retention: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
}

impl Settings {
    /// Reads a URL; a password that is not in it comes from the environment.
    pub(super) fn parse(url: &str) -> Result<Self, Invalid> {
        Self::parse_with(url, |name| std::env::var(name).ok())
    }

    fn parse_with(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            invalid("the store URL has no `://` after its scheme: write redis://HOST")
        })?;
        let (place, options) = rest.split_once('?').map_or((rest, ""), |(a, b)| (a, b));
        check_delimiters(place, options)?;
        let mut settings = match scheme {
            "redis" | "valkey" => Self::tcp(place, None)?,
            "rediss" | "valkeys" => Self::tcp(place, Some(TlsFiles::default()))?,
            "redis+unix" | "valkey+unix" => Self::unix(place)?,
            _ => return Err(unknown_scheme(scheme)),
        };
        settings.read_options(options)?;
        if settings.password.is_none() {
            settings.password = password_from(environment)?;
        }
        if let (Some(user), None) = (&settings.user, &settings.password) {
            return Err(invalid(format!(
                "the store URL names the user {user:?} and no password: add one, or set {PASSWORD} \
                 or {PASSWORD_FILE}"
            )));
        }
        Ok(settings)
    }

    fn at(address: Address, tls: Option<TlsFiles>) -> Self {
        Self {
            address,
            tls,
            user: None,
            password: None,
            database: 0,
            prefix: DEFAULT_PREFIX.to_owned(),
            retention: DEFAULT_RETENTION,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    fn tcp(place: &str, tls: Option<TlsFiles>) -> Result<Self, Invalid> {
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (credentials, host) = split_credentials(authority);
        let (host, port) = parse_host(host)?;
        let mut settings = Self::at(Address::Tcp { host, port }, tls);
        settings.read_credentials(credentials)?;
        if !database.is_empty() {
            settings.database = database.parse().map_err(|_| {
                invalid(format!("the database {database:?} in the store URL is not a number"))
            })?;
        }
        Ok(settings)
    }

    fn unix(place: &str) -> Result<Self, Invalid> {
        let slash = place.find('/').unwrap_or(place.len());
        let (authority, path) = place.split_at(slash);
        let (credentials, host) = split_credentials(authority);
        if path.is_empty() || !host.is_empty() {
            return Err(invalid(
                "the store URL needs the absolute path of a socket: write \
                 redis+unix:///run/redis.sock, with three slashes",
            ));
        }
        let mut settings = Self::at(Address::Unix(decode("path", path)?.into()), None);
        settings.read_credentials(credentials)?;
        Ok(settings)
    }

    fn read_credentials(&mut self, credentials: Option<&str>) -> Result<(), Invalid> {
        let Some(credentials) = credentials else { return Ok(()) };
        let (user, password) =
            credentials.split_once(':').map_or((credentials, None), |(a, b)| (a, Some(b)));
        if !user.is_empty() {
            self.user = Some(decode("user", user)?);
        }
        self.password = password.map(|text| decode("password", text).map(Secret)).transpose()?;
        Ok(())
    }

    fn read_options(&mut self, options: &str) -> Result<(), Invalid> {
        let mut seen = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                invalid(format!("the option {option:?} in the store URL has no value"))
            })?;
            if seen.contains(&name) {
                return Err(invalid(format!("the option `{name}` is in the store URL twice")));
            }
            seen.push(name);
            self.set_option(name, decode("option", value)?)?;
        }
        let Some(tls) = &self.tls else { return Ok(()) };
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err(invalid("`cert` and `key` in the store URL go together: give both"));
        }
        if tls.insecure && tls.authority.is_some() {
            return Err(invalid(
                "`insecure=on` in the store URL believes any server, so `ca` is of no use: \
                 leave one of them out",
            ));
        }
        Ok(())
    }

    fn set_option(&mut self, name: &str, value: String) -> Result<(), Invalid> {
        match name {
            "ca" => self.tls(name)?.authority = Some(value.into()),
            "cert" => self.tls(name)?.certificate = Some(value.into()),
            "connect_timeout" => self.connect_timeout = span(name, &value, TIMEOUTS)?,
            "insecure" => {
                self.tls(name)?.insecure = match value.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(invalid("`insecure` in the store URL is `on` or `off`")),
                }
            }
            "key" => self.tls(name)?.key = Some(value.into()),
            "layout" if value == "native" => {}
            "layout" => {
                return Err(invalid(format!(
                    "the layout {value:?} is not available in this release: leave it out"
                )));
            }
            "prefix" => {
                if value.len() > MAX_PREFIX_BYTES || value.chars().any(char::is_control) {
                    return Err(invalid(format!(
                        "`prefix` in the store URL has more than {MAX_PREFIX_BYTES} bytes or a \
                         control character"
                    )));
                }
                self.prefix = value;
            }
            "retention" => self.retention = span(name, &value, RETENTIONS)?,
            "timeout" => self.timeout = span(name, &value, TIMEOUTS)?,
            _ => {
                return Err(invalid(format!(
                    "the store URL has the unknown option {name:?}: there are ca, cert, \
                     connect_timeout, insecure, key, layout, prefix, retention and timeout"
                )));
            }
        }
        Ok(())
    }

    fn tls(&mut self, name: &str) -> Result<&mut TlsFiles, Invalid> {
        self.tls.as_mut().ok_or_else(|| {
            invalid(format!("`{name}` in the store URL is for TLS: begin it with rediss://"))
        })
    }
}

fn invalid(why: impl Into<String>) -> Invalid {
    Invalid::new("url", why)
}

fn unknown_scheme(scheme: &str) -> Invalid {
    let later = ["sentinel", "cluster", "quorum"];
    let why = if scheme.split_once('+').is_some_and(|(_, kind)| later.contains(&kind)) {
        format!("{scheme}:// is not available in this release: give one primary by redis://HOST")
    } else {
        format!(
            "the store URL begins with {scheme:?}: use redis://, rediss:// (TLS) or redis+unix://"
        )
    };
    invalid(why)
}

/// Refuses a delimiter where none belongs: it is a password that was not escaped, and no later
/// message may show a piece of it.
fn check_delimiters(place: &str, options: &str) -> Result<(), Invalid> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let strays = path.contains('@')
        || options.contains('@')
        || place.contains('#')
        || options.contains('#')
        || authority.matches('@').count() > 1;
    if strays {
        return Err(invalid(
            "the store URL has a `@` or `#` where none belongs: write `/` as %2F, `?` as %3F, `#` \
             as %23, `@` as %40, or give the password in LEASEHOLD_PASSWORD",
        ));
    }
    Ok(())
}

fn split_credentials(authority: &str) -> (Option<&str>, &str) {
    authority.split_once('@').map_or((None, authority), |(before, host)| (Some(before), host))
}

fn parse_host(text: &str) -> Result<(String, u16), Invalid> {
    let unclosed = || invalid("the host in the store URL begins with `[` and has no `]`");
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']').ok_or_else(unclosed)?;
        (host, port.strip_prefix(':'))
    } else {
        text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() {
        return Err(invalid("the store URL names no host: write redis://HOST[:PORT]"));
    }
    if host.contains(',') {
        return Err(invalid("the store URL names several hosts: give one primary"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(digits) => match digits.parse() {
            Ok(port) if port > 0 => port,
            _ => {
                let why = format!("the port {digits:?} in the store URL is not 1 to 65535");
                return Err(invalid(why));
            }
        },
    };
    Ok((decode("host", host)?, port))
}

fn span(name: &str, text: &str, (low, high): (Duration, Duration)) -> Result<Duration, Invalid> {
    let span = parse_duration(text)
        .map_err(|refusal| invalid(format!("`{name}` in the store URL: {refusal}")))?;
    if span < low || span > high {
        let why = format!("`{name}` in the store URL is {span:?}: give {low:?} to {high:?}");
        return Err(invalid(why));
    }
    Ok(span)
}

/// Undoes `%2F` and the like.
fn decode(part: &str, text: &str) -> Result<String, Invalid> {
    percent_decode(text).ok_or_else(|| {
        invalid(format!(
            "the {part} in the store URL has a `%` without two hex digits, or no UTF-8"
        ))
    })
}

fn password_from(environment: impl Fn(&str) -> Option<String>) -> Result<Option<Secret>, Invalid> {
    if let Some(password) = environment(PASSWORD) {
        return Ok(Some(Secret(password)));
    }
    let Some(path) = environment(PASSWORD_FILE) else { return Ok(None) };
    let text = fs::read_to_string(&path)
        .map_err(|error| invalid(format!("{PASSWORD_FILE} names {path:?}: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    Ok(Some(Secret(line.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Settings, String> {
        Settings::parse_with(url, |_| None).map_err(|refusal| refusal.why)
    }

    fn address(url: &str) -> String {
        parse(url).unwrap().address.to_string()
    }

    #[test]
    fn a_host_may_have_a_port_a_database_and_credentials() {
        let settings = parse("redis://bob:p%40ss%2F@db.example:7000/3").unwrap();
        assert_eq!(settings.address.to_string(), "db.example:7000");
        assert_eq!((settings.user.as_deref(), settings.database), (Some("bob"), 3));
        assert_eq!(settings.password.unwrap().reveal(), "p@ss/");
        assert_eq!(address("redis://h"), "h:6379");
        assert_eq!(address("valkey://[::1]:1/"), "[::1]:1");
        assert_eq!(parse("redis://:pw@h").unwrap().user, None);
    }

    #[test]
    fn a_unix_socket_may_have_credentials() {
        let settings = parse("redis+unix://u:p@/run/a%20b.sock?timeout=1s").unwrap();
        assert_eq!(settings.address, Address::Unix("/run/a b.sock".into()));
        assert_eq!(settings.user.as_deref(), Some("u"));
        assert_eq!(settings.timeout, Duration::from_secs(1));
    }

    #[test]
    fn every_option_is_read() {
        let settings = parse(
            "rediss://h?ca=/a.pem&cert=/b.pem&key=/c.pem&prefix=app%3A&retention=10m&\
             connect_timeout=1s&timeout=100ms&layout=native&insecure=off",
        )
        .unwrap();
        let tls = settings.tls.unwrap();
        assert_eq!(tls.authority, Some("/a.pem".into()));
        assert_eq!((tls.certificate, tls.key), (Some("/b.pem".into()), Some("/c.pem".into())));
        assert!(!tls.insecure);
        assert_eq!(settings.prefix, "app:");
        assert_eq!(settings.retention, Duration::from_mins(10));
        assert_eq!(settings.connect_timeout, Duration::from_secs(1));
        assert_eq!(settings.timeout, Duration::from_millis(100));
    }

    #[test]
    fn each_wrong_part_is_named() {
        for (url, part) in [
            ("redis:h", "`://`"),
            ("http://h", "\"http\""),
            ("redis+cluster://a:1,b:2", "not available in this release"),
            ("rediss+sentinel://a:1/main", "not available in this release"),
            ("redis://", "no host"),
            ("redis:///0", "no host"),
            ("redis://a,b", "several hosts"),
            ("redis://[::1", "no `]`"),
            ("redis://h:99999", "the port \"99999\""),
            ("redis://h:0", "the port \"0\""),
            ("redis://h:", "the port \"\""),
            ("redis://h/zero", "the database \"zero\""),
            ("redis://h/-1", "the database \"-1\""),
            ("redis://bob@h", "the user \"bob\""),
            ("redis://b%zz:p@h", "the user"),
            ("redis://b:p%f@h", "the password"),
            ("redis://h?ttl=1s", "\"ttl\""),
            ("redis://h?timeout", "\"timeout\" in the store URL has no value"),
            ("redis://h?timeout=10", "write 10s"),
            ("redis://h?timeout=5ms", "`timeout`"),
            ("redis://h?retention=0s", "`retention`"),
            ("redis://h?connect_timeout=2m", "`connect_timeout`"),
            ("redis://h?timeout=1s&timeout=2s", "twice"),
            ("redis://h?layout=redisson", "\"redisson\""),
            ("redis://h?prefix=a%0a", "`prefix`"),
            ("redis://h?ca=/a", "`ca`"),
            ("redis://h?insecure=on", "`insecure`"),
            ("rediss://h?insecure=yes", "`insecure`"),
            ("rediss://h?insecure=on&ca=/a", "leave one of them out"),
            ("rediss://h?cert=/a", "give both"),
            ("redis+unix://run/a.sock", "three slashes"),
            ("redis+unix://", "three slashes"),
        ] {
            let why = parse(url).unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
            assert!(!why.contains('\n'), "{url}: {why}");
        }
    }

    #[test]
    fn a_password_that_was_not_escaped_is_never_shown() {
        for url in [
            "redis://bob:hunter/2@h",
            "redis://bob:hunter@2@h",
            "redis://bob:hunter#2@h",
            "redis://bob:hunter?2@h",
            "redis://bob:hunter%2@h",
        ] {
            let why = parse(url).unwrap_err();
            assert!(!why.contains("hunter"), "{why}");
        }
        let settings = parse("redis://bob:hunter2@h").unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_password_may_come_from_the_environment_or_a_file() {
        let file = std::env::temp_dir().join(format!("leasehold-password-{}", std::process::id()));
        fs::write(&file, "from file\n").unwrap();
        let path = file.display().to_string();
        let both = |name: &str| match name {
            PASSWORD => Some("from env".to_owned()),
            PASSWORD_FILE => Some(path.clone()),
            _ => None,
        };
        let only_file = |name: &str| (name == PASSWORD_FILE).then(|| path.clone());
        let password = |url, environment: &dyn Fn(&str) -> Option<String>| {
            Settings::parse_with(url, environment).unwrap().password.unwrap().0
        };
        assert_eq!(password("redis://h", &both), "from env");
        assert_eq!(password("redis://u@h", &only_file), "from file");
        assert_eq!(password("redis://u:url@h", &both), "url");
        fs::remove_file(&file).unwrap();
        let refusal = Settings::parse_with("redis://h", only_file).unwrap_err();
        assert!(refusal.why.contains("LEASEHOLD_PASSWORD_FILE"), "{refusal}");
    }
}
