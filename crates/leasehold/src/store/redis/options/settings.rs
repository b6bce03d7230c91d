//! What was asked for, as the rest of the store reads it: with defaults in place of what was not
//! given.

use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::DEFAULT_RETENTION;

use super::login::Login;
use super::servers::{Address, Servers};
use super::tls::Tls;

/// What the keys of leasehold begin with.
const DEFAULT_PREFIX: &str = "lh:";

/// How long opening a connection may take: 5 s, two lost SYN packets and a slow name server.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one request may take: 500 ms, which leaves several tries within a third of the
/// shortest usual ttl; a healthy server answers within one.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// How far the clocks of servers may be apart that take over from each other: 500 ms, far above
/// what NTP leaves, and little beside the usual ttl.
pub(super) const DEFAULT_OFFSET: Duration = Duration::from_millis(500);

/// How long `quarantine=on` lasts: 1 min, twice the usual ttl.
pub(crate) const QUARANTINE: Duration = Duration::from_mins(1);

/// What a lock looks like on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutName {
    /// A hash with a queue, tokens and all that leasehold can do.
    #[default]
    Native,
    /// The string of the Redis documentation, shared with programs in other languages.
    Plain,
    /// The locks of Redisson, shared with programs in Java.
    Redisson,
}

impl LayoutName {
    /// Whether programs in other languages share the locks, and keep nothing but them.
    pub(crate) fn is_shared(self) -> bool {
        match self {
            Self::Native => false,
            Self::Plain | Self::Redisson => true,
        }
    }
}

/// How many replicas must have a grant before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replicas {
    /// All there are.
    All,
    /// At least this number, from 1 to 100.
    AtLeast(u32),
    /// None: the primary's reply is enough.
    #[default]
    None,
}

/// Whether there is a quarantine, and how long it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QuarantineSpan {
    /// It was not given: there is one on the nodes of a quorum.
    #[default]
    Default,
    Off,
    Of(Duration),
}

/// Everything that may be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) servers: Servers,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Login,
    /// Who the client is to sentinels.
    pub(crate) sentinel_login: Login,
    pub(crate) database: u32,
    pub(crate) layout: LayoutName,
    pub(crate) prefix: Option<String>,
    /// Whether tokens are the counter of an `RFencedLock`.
    pub(crate) fenced: bool,
    pub(crate) retention: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take, if that was given.
    pub(crate) timeout: Option<Duration>,
    /// How far clocks may be apart, if that was given.
    pub(crate) offset: Option<Duration>,
    /// How many replicas must have a grant before it counts.
    pub(crate) replicas: Replicas,
    /// Whether a grant must be on the primary's disk before it counts.
    pub(crate) waitaof: bool,
    pub(super) quarantine: QuarantineSpan,
}

impl Settings {
    pub(super) fn of(servers: Servers) -> Self {
        Self {
            servers,
            tls: None,
            login: Login::default(),
            sentinel_login: Login::default(),
            database: 0,
            layout: LayoutName::default(),
            prefix: None,
            fenced: false,
            retention: DEFAULT_RETENTION,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            timeout: None,
            offset: None,
            replicas: Replicas::default(),
            waitaof: false,
            quarantine: QuarantineSpan::Default,
        }
    }

    /// The same, for one of the nodes of a quorum.
    pub(crate) fn of_node(&self, address: &Address) -> Self {
        Self {
            servers: Servers::Standalone(address.clone()),
            offset: Some(self.clock_offset(false)),
            quarantine: self.quarantine().map_or(QuarantineSpan::Off, QuarantineSpan::Of),
            ..self.clone()
        }
    }

    /// Whether any server is believed.
    pub(crate) fn is_insecure(&self) -> bool {
        matches!(&self.tls, Some(Tls::Files(files)) if files.is_insecure)
    }

    /// How long one request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// What all keys and channels begin with.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(DEFAULT_PREFIX)
    }

    /// What the keys of locks begin with: Redisson knows no prefix but that of a `NameMapper`.
    pub(crate) fn lock_prefix(&self) -> &str {
        match self.layout {
            LayoutName::Redisson => self.prefix.as_deref().unwrap_or_default(),
            LayoutName::Native | LayoutName::Plain => self.prefix(),
        }
    }

    /// How long nothing new is granted after the server may have forgotten something.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        match self.quarantine {
            QuarantineSpan::Of(span) => Some(span),
            // One node that forgets is enough to give two clients a majority.
            QuarantineSpan::Default if self.has_ballots() => Some(QUARANTINE),
            QuarantineSpan::Default | QuarantineSpan::Off => None,
        }
    }

    /// Whether requests for many names may travel as one call. In a cluster a call must stay within
    /// a slot; and with a quarantine each acquire has the boot record asked for right behind it.
    pub(crate) fn bundles(&self) -> bool {
        let is_cluster = matches!(self.servers, Servers::Cluster(_));
        (!is_cluster || bugs::is_on(Bug::SlotsInOneCall)) && self.quarantine().is_none()
    }

    /// Whether a quarantine is possible at all.
    pub(super) fn may_be_in_quarantine(&self) -> bool {
        self.layout == LayoutName::Native
    }

    /// Whether several nodes must agree on one token.
    pub(super) fn has_ballots(&self) -> bool {
        matches!(self.servers, Servers::Quorum(_)) && self.layout == LayoutName::Native
    }

    /// What mends that a server forgets: a setting of its own, or a quarantine where there may be
    /// one.
    pub(crate) fn or_quarantine(&self, setting: &str) -> String {
        match self.may_be_in_quarantine() {
            true => format!("{setting}, or quarantine=on in every store URL"),
            false => setting.to_owned(),
        }
    }

    /// How far the clocks of servers may be apart that take over from each other. After a
    /// quarantine it does not matter: what was granted before has ended by either clock.
    pub(crate) fn clock_offset(&self, is_followed: bool) -> Duration {
        let is_taken_over = match &self.servers {
            Servers::Cluster(_) | Servers::Sentinel { .. } => true,
            Servers::Standalone(_) => is_followed || self.replicas != Replicas::None,
            Servers::Quorum(_) => false,
        };
        self.offset.unwrap_or(match is_taken_over && self.quarantine().is_none() {
            true => DEFAULT_OFFSET,
            false => Duration::ZERO,
        })
    }
}
