//! What follows the `?` of a store URL.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::Invalid;
use leasehold_core::text::parse_duration;

use super::address::Place;
use super::{Settings, decode, invalid};

/// Longest prefix: 64 bytes, since every key carries it.
const MAX_PREFIX_BYTES: usize = 64;

/// What a timeout may be: below 10 ms a busy machine looks like a dead server.
const TIMEOUTS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(60));

/// What the retention may be: from the time it takes to notice a lost reply to the longest lease.
const RETENTIONS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24));

/// What a quarantine may last: as long as the longest lease that may be out.
const QUARANTINES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24));

/// What clocks may be apart: far less than the 10 s by which late copies of requests are told.
const OFFSETS: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(10));

/// How long `quarantine=on` lasts: 1 min, twice the usual ttl.
pub(crate) const QUARANTINE: Duration = Duration::from_mins(1);

/// Most replicas that can be asked for: more than anybody has.
const MAX_REPLICAS: u32 = 100;

/// How the server is known and the client made known to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Whom to trust instead of the system's authorities.
    pub(crate) authority: Option<PathBuf>,
    /// The client's certificate.
    pub(crate) certificate: Option<PathBuf>,
    /// The client's key.
    pub(crate) key: Option<PathBuf>,
    /// Whether any server is believed.
    pub(crate) insecure: bool,
}

/// What a lock looks like on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LayoutName {
    /// A hash with a queue, tokens and all that leasehold can do.
    #[default]
    Native,
    /// The string of the Redis documentation, shared with programs in other languages.
    Plain,
}

/// How many replicas must have a grant before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replicas {
    /// All there are.
    All,
    /// At least so many.
    AtLeast(u32),
    /// The primary's word is enough.
    #[default]
    None,
}

impl Settings {
    pub(crate) fn read_options(&mut self, options: &str) -> Result<(), Invalid> {
        let mut seen = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                // Not named: it may be a piece of a password with a `?` in it.
                invalid("an option in the store URL has no value: write name=value")
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
            "insecure" => self.tls(name)?.insecure = switch(name, &value)?,
            "key" => self.tls(name)?.key = Some(value.into()),
            "layout" => self.layout = layout(&value)?,
            "offset" => self.offset = Some(span(name, &value, OFFSETS)?),
            "prefix" => self.prefix = Some(prefix(value)?),
            "quarantine" => self.quarantine = quarantine(name, &value)?,
            "replicas" => self.replicas = replicas(&value)?,
            "retention" => self.retention = span(name, &value, RETENTIONS)?,
            "sentinel_user" => {
                if !matches!(self.place, Place::Sentinel { .. }) {
                    return Err(invalid(
                        "`sentinel_user` in the store URL is for sentinels: begin it with \
                         redis+sentinel://",
                    ));
                }
                self.sentinel_login.user = Some(value);
            }
            "timeout" => self.timeout = Some(span(name, &value, TIMEOUTS)?),
            "waitaof" => self.waitaof = switch(name, &value)?,
            _ => {
                return Err(invalid(format!(
                    "the store URL has the unknown option {name:?}: there are ca, cert, \
                     connect_timeout, insecure, key, layout, offset, prefix, quarantine, \
                     replicas, retention, sentinel_user, timeout and waitaof"
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

fn switch(name: &str, value: &str) -> Result<bool, Invalid> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(invalid(format!("`{name}` in the store URL is `on` or `off`"))),
    }
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

fn layout(value: &str) -> Result<LayoutName, Invalid> {
    match value {
        "native" => Ok(LayoutName::Native),
        "plain" => Ok(LayoutName::Plain),
        _ => Err(invalid(format!(
            "the layout {value:?} in the store URL is not known: there are native and plain"
        ))),
    }
}

fn prefix(value: String) -> Result<String, Invalid> {
    if value.len() > MAX_PREFIX_BYTES || value.chars().any(char::is_control) {
        return Err(invalid(format!(
            "`prefix` in the store URL has more than {MAX_PREFIX_BYTES} bytes or a control \
             character"
        )));
    }
    Ok(value)
}

fn quarantine(name: &str, value: &str) -> Result<Option<Duration>, Invalid> {
    match value {
        "off" => Ok(None),
        "on" => Ok(Some(QUARANTINE)),
        span_text => span(name, span_text, QUARANTINES).map(Some),
    }
}

fn replicas(value: &str) -> Result<Replicas, Invalid> {
    match value {
        "all" => Ok(Replicas::All),
        "none" => Ok(Replicas::None),
        number => match number.parse() {
            Ok(count) if (1..=MAX_REPLICAS).contains(&count) => Ok(Replicas::AtLeast(count)),
            _ => Err(invalid(format!(
                "`replicas` in the store URL is {value:?}: give none, all or a number from 1"
            ))),
        },
    }
}
