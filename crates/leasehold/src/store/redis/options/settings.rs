//! What was asked for, as the rest of the store reads it: with defaults in place of what was not
//! given.

use std::time::Duration;

use leasehold_core::bugs::{self, Bug};

use super::login::Login;
use super::servers::{Address, Servers};
use super::table::Settings;
use super::values::{LayoutName, Replicas};
use crate::store::quarantine_span::{QUARANTINE, QuarantineSpan};

/// What the keys of leasehold begin with.
const DEFAULT_PREFIX: &str = "lh:";

/// How long one request may take: 500 ms, which leaves several tries within a third of the
/// shortest usual ttl; a healthy server answers within one.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// How far apart the clocks of servers that take over from each other may be: 500 ms, far above
/// what NTP leaves, and little beside the usual ttl.
pub(super) const DEFAULT_OFFSET: Duration = Duration::from_millis(500);

impl Settings {
    /// The same, for one of the nodes of a quorum.
    pub(crate) fn of_node(&self, address: &Address) -> Self {
        Self {
            servers: Servers::Standalone(address.clone()),
            offset: Some(self.clock_offset(false)),
            quarantine: self.quarantine().into(),
            ..self.clone()
        }
    }

    /// Who the client is to sentinels.
    pub(crate) fn sentinel_login(&self) -> Login {
        Login { user: self.sentinel_user.clone(), password: self.sentinel_password.clone() }
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

    /// The remedy for a server that forgets: one of its settings, or a quarantine where there may
    /// be one.
    pub(crate) fn or_quarantine(&self, setting: &str) -> String {
        match self.may_be_in_quarantine() {
            true => format!("{setting}, or quarantine=on in every store URL"),
            false => setting.to_owned(),
        }
    }

    /// How far apart the clocks of servers that take over from each other may be. After a
    /// quarantine this does not matter: what was granted before has ended by either clock.
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
