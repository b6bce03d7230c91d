//! What a store asks for before a grant counts, as its URL says.

use std::sync::Arc;

use leasehold_core::{Operation, StoreError};
use redis::Value;

use super::quarantine::{Pause, Quarantine};
use super::replication::Replication;
use crate::store::redis::options::{Servers, Settings};

/// What a store asks for before a grant counts.
#[derive(Debug)]
pub(crate) struct Durability {
    pub(super) quarantine: Option<Quarantine>,
    pub(super) replication: Option<Replication>,
}

/// What was asked behind a script, and what came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Why the grant may be lost with the primary, if it may be.
    pub(super) shortfall: Option<String>,
    /// Why nothing new is granted, if so.
    pub(super) pause: Option<Pause>,
}

/// A reply, and what came of what was asked behind it.
pub(super) type Judged = Result<(Value, Result<Verdict, StoreError>), StoreError>;

impl Durability {
    /// What the settings ask for; `None` if they ask for nothing.
    pub(crate) fn new(settings: &Settings) -> Option<Arc<Self>> {
        let in_cluster = matches!(settings.servers, Servers::Cluster(_));
        let quarantine =
            settings.quarantine().map(|span| Quarantine::new(settings.prefix(), span, in_cluster));
        let replication = Replication::new(settings);
        (quarantine.is_some() || replication.is_some())
            .then(|| Arc::new(Self { quarantine, replication }))
    }

    /// Whether holders take back what the server has forgotten.
    pub(crate) fn reclaims(&self) -> bool {
        self.quarantine.is_some()
    }

    /// Refuses what cannot be promised.
    pub(crate) fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        self.quarantine.as_ref().map_or(Ok(()), |quarantine| quarantine.check(operation))
    }
}
