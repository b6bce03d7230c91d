//! The conditions of a store URL under which a grant counts.

use std::sync::Arc;

use leasehold_core::{Operation, StoreError};
use redis::Value;

use super::quarantine::Quarantine;
use super::replication::Replication;
use crate::store::redis::options::{RedisOptions, Servers};

/// The conditions under which a grant counts.
#[derive(Debug)]
pub(crate) struct Durability {
    pub(super) quarantine: Option<Quarantine>,
    pub(super) replication: Option<Replication>,
}

/// The reply of a script, and what the commands that follow it say: why the grant may be lost with
/// the primary; `None` if it cannot be.
pub(super) type Judged = Result<(Value, Result<Option<String>, StoreError>), StoreError>;

impl Durability {
    /// The conditions of the settings; `None` if they have none.
    pub(crate) fn new(settings: &RedisOptions) -> Option<Arc<Self>> {
        let in_cluster = matches!(settings.servers, Servers::Cluster(_));
        let quarantine =
            settings.quarantine().map(|span| Quarantine::new(settings.prefix(), span, in_cluster));
        let replication = Replication::new(settings);
        (quarantine.is_some() || replication.is_some())
            .then(|| Arc::new(Self { quarantine, replication }))
    }

    /// Whether holders take back leases that the server has forgotten.
    pub(crate) fn reclaims(&self) -> bool {
        self.quarantine.is_some()
    }

    /// Refuses an operation that cannot keep the promises.
    pub(crate) fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        self.quarantine.as_ref().map_or(Ok(()), |quarantine| quarantine.check(operation))
    }
}
