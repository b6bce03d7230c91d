//! What the options of the stores on servers have in common.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::InvalidInput;
use tokio_rustls::rustls::ClientConfig;

/// How long a quarantine lasts: 1 min, twice the usual ttl.
const QUARANTINE: Duration = Duration::from_mins(1);

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
    pub(super) fn read(name: &str, text: &str) -> Result<Self, InvalidInput> {
        #[cfg(leasehold_test_bugs)]
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return super::span::read(name, text).map(Self::Of);
        }
        word(name, text, &[("on", Self::On), ("off", Self::Off)])
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

/// A TLS configuration that the program makes with [the rustls that leasehold
/// uses](crate::store::rustls). No `Debug` shows it, because it may have a private key.
#[derive(Clone)]
pub struct TlsConfig(pub Arc<ClientConfig>);

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a configuration of the program)")
    }
}

/// The error for options that are wrong.
pub(super) fn invalid(why: impl Into<String>) -> InvalidInput {
    InvalidInput::new("url", why)
}

/// The error for an option that does not exist.
pub(super) fn unknown(name: &str, names: &[&str]) -> InvalidInput {
    let known = list(names, "and");
    invalid(format!("the store URL has the unknown option {name:?}: there are {known}"))
}

/// Reads a value that must be one of these words.
pub(super) fn word<T: Copy>(
    name: &str,
    text: &str,
    words: &[(&str, T)],
) -> Result<T, InvalidInput> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        invalid(format!("`{name}` in the store URL is {}", list(&words, "or")))
    })
}

fn list(words: &[&str], link: &str) -> String {
    let (last, others) = words.split_last().unwrap_or((&"", &[]));
    format!("{} {link} {last}", others.join(", "))
}

/// Refuses an address without a host or a port, and an address that occurs twice.
pub(super) fn check_addresses<T: fmt::Display + PartialEq>(
    scheme: &str,
    addresses: &[T],
    host_and_port: impl Fn(&T) -> Option<(&str, u16)>,
) -> Result<(), InvalidInput> {
    if addresses.is_empty() {
        return Err(no_host(scheme));
    }
    for (index, address) in addresses.iter().enumerate() {
        match host_and_port(address) {
            Some(("", _)) => return Err(no_host(scheme)),
            Some((_, 0)) => return Err(invalid("the port is not 1 to 65535")),
            Some(_) | None => {}
        }
        if addresses[..index].contains(address) {
            return Err(invalid(format!("the addresses have {address} twice")));
        }
    }
    Ok(())
}

pub(super) fn no_host(scheme: &str) -> InvalidInput {
    invalid(format!("there is no host: write {scheme}://HOST[:PORT]"))
}

/// Asserts that the manual has a row for each option, and no other.
#[cfg(test)]
pub(super) fn assert_told(manual: &str, names: &[&str]) {
    let (_, section) = manual.split_once("\n## Options\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), names);
}
