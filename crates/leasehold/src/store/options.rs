//! What the options of the stores on servers have in common.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use leasehold_core::InvalidInput;

use super::place::invalid;

/// How long a quarantine lasts: 1 min, twice the usual ttl.
const QUARANTINE: Duration = Duration::from_mins(1);

/// How long opening a connection may take at least: 5 s, enough for two lost SYN packets and a slow
/// name server.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest difference between the clocks of servers that take over from each other: 500 ms, far
/// above what NTP leaves, and short compared with the usual ttl.
pub(super) const OFFSET: Duration = Duration::from_millis(500);

/// The range of a timeout: below 10 ms a busy machine looks like a dead server.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// The address of a server.
#[cfg_attr(not(feature = "postgres"), expect(unreachable_pub, reason = "PostgresServer is this"))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// A host by name or number, or the path of a socket, which begins with a `/`.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Server {
    pub(crate) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// Whether data for the server stays on this machine.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_local(&self) -> bool {
        self.is_socket()
            || self.host == "localhost"
            || self.host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match (self.is_socket(), host.contains(':')) {
            (true, _) => f.write_str(host),
            (false, true) => write!(f, "[{host}]:{port}"),
            (false, false) => write!(f, "{host}:{port}"),
        }
    }
}

/// Whether nothing new is granted for a minute once a server may have forgotten something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quarantine {
    /// As the store needs it: on for PostgreSQL and for the nodes of a quorum, otherwise off.
    #[default]
    Default,
    /// New grants are made at once.
    Off,
    /// Nothing new is granted for a minute.
    On,
    /// Of another length, so that tests need not wait for a minute.
    #[cfg(leasehold_test_bugs)]
    #[doc(hidden)]
    Of(Duration),
}

impl Quarantine {
    /// The value of the option in a URL.
    pub(super) fn read(text: &str) -> Result<Self, InvalidInput> {
        #[cfg(leasehold_test_bugs)]
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return leasehold_core::text::parse_duration(text).map(Self::Of);
        }
        word(&[("on", Self::On), ("off", Self::Off)])(text)
    }

    /// The length of the quarantine, if there is one.
    pub(super) fn span(self, by_default: bool) -> Option<Duration> {
        match self {
            Self::Default => by_default.then_some(QUARANTINE),
            Self::Off => None,
            Self::On => Some(QUARANTINE),
            #[cfg(leasehold_test_bugs)]
            Self::Of(span) => Some(span),
        }
    }
}

/// Reads a value that is any text.
pub(super) fn text<T: for<'a> From<&'a str>>(text: &str) -> Result<T, InvalidInput> {
    Ok(text.into())
}

/// Reads a value that is one of these words.
pub(super) fn word<T: Copy>(words: &[(&str, T)]) -> impl Fn(&str) -> Result<T, InvalidInput> {
    |text| {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let words = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>();
        found.ok_or_else(|| invalid(format!("write {}", list(&words(), "or"))))
    }
}

pub(super) fn list(words: &[&str], link: &str) -> String {
    let (last, others) = words.split_last().unwrap_or((&"", &[]));
    format!("{} {link} {last}", others.join(", "))
}

/// Refuses a timeout that is out of range, and the first of the others that is so.
pub(super) fn check(timeout: Duration, others: &[(bool, &str)]) -> Result<(), InvalidInput> {
    let timeout = (!TIMEOUTS.contains(&timeout), "`timeout` is out of range: give 10ms to 60s");
    match std::iter::once(&timeout).chain(others).find(|(is_so, _)| *is_so) {
        Some((_, why)) => Err(invalid(*why)),
        None => Ok(()),
    }
}

/// Asserts that the manual has a row for each option that this refusal of an unknown one names, and
/// no other.
#[cfg(test)]
pub(super) fn assert_told(manual: &str, refusal: &str) {
    let (_, section) = manual.split_once("\n## Options\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let told = format!(": there are {}", list(&rows.collect::<Vec<_>>(), "and"));
    assert!(refusal.ends_with(&told), "{refusal}");
}
