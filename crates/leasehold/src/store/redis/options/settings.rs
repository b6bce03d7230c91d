//! The settings as the rest of the store reads them, with defaults for options that were not given.

use std::time::Duration;

use leasehold_core::bugs::{self, Bug};

use super::login::Login;
use super::servers::{Address, Servers};
use super::table::Settings;
use super::values::{LayoutName, Replicas};
use crate::store::quarantine_span::{QUARANTINE, QuarantineSpan};

/// The beginning of leasehold's keys.
const DEFAULT_PREFIX: &str = "lh:";

/// How long one request may take: 500 ms, which leaves several tries within a third of the shortest
/// usual ttl. A healthy server answers within one try.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// The largest difference between the clocks of servers that take over from each other: 500 ms, far
/// above what NTP leaves, and short compared with the usual ttl.
pub(super) const DEFAULT_OFFSET: Duration = Duration::from_millis(500);

impl Settings {
    /// The same settings, for one of the nodes of a quorum.
    pub(crate) fn of_node(&self, address: &Address) -> Self {
        Self {
            servers: Servers::Standalone(address.clone()),
            offset: Some(self.clock_offset(false)),
            quarantine: self.quarantine().into(),
            ..self.clone()
        }
    }

    /// The login of the client at sentinels.
    pub(crate) fn sentinel_login(&self) -> Login {
        Login { user: self.sentinel_user.clone(), password: self.sentinel_password.clone() }
    }

    /// How long one request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// The beginning of all keys and channels.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(DEFAULT_PREFIX)
    }

    /// The beginning of the keys of locks: Redisson has no prefix except that of a `NameMapper`.
    pub(crate) fn lock_prefix(&self) -> &str {
        match self.layout {
            LayoutName::Redisson => self.prefix.as_deref().unwrap_or_default(),
            LayoutName::Native | LayoutName::Plain => self.prefix(),
        }
    }

    /// How long nothing new is granted once the server may have forgotten something.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        match self.quarantine {
            QuarantineSpan::Of(span) => Some(span),
            // A single node that forgets is enough for two clients to have a majority.
            QuarantineSpan::Default if self.has_ballots() => Some(QUARANTINE),
            QuarantineSpan::Default | QuarantineSpan::Off => None,
        }
    }

    /// Whether requests for many names may travel as one call. In a cluster, a call must stay
    /// within a slot. With a quarantine, each acquire is followed by a command that reads the boot
    /// record.
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

    /// The remedy for a server that forgets: one of its settings, or a quarantine if the store can
    /// have one.
    pub(crate) fn or_quarantine(&self, setting: &str) -> String {
        match self.may_be_in_quarantine() {
            true => format!("{setting}, or quarantine=on in every store URL"),
            false => setting.to_owned(),
        }
    }

    /// The largest difference between the clocks of servers that take over from each other. With a
    /// quarantine it does not matter: earlier leases have ended by either clock.
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
