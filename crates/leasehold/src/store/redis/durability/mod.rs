//! Durability: the conditions under which a grant counts. Enough replicas must have it, and the
//! server must have forgotten nothing.
//!
//! A script that may grant checks the [boot record](quarantine::Quarantine) in front, and a refusal
//! leaves no trace. If it left a token, holders could not take back their leases. The check
//! is for the run of the server to which the main connection leads. Each connection for WAIT leads
//! to the same run. [WAIT](replication::Replication) follows the scripts on such a
//! connection, and counts acknowledgements of the writes on it. If neither is needed, there is no
//! [`Durability`] at all.
//!
//! A grant that does not count stays at the server until the caller takes it back. One attempt may
//! have two requests under way. While a replica hangs, the first may be answered "too few
//! replicas", and the second, a moment later, "granted". If the first answer took the grant back,
//! the next waiter would get the lock, although a holder relies on the second answer. Only the
//! owner of the attempt knows which answer it relies on. The owner asks again; or it gives the
//! attempt up, ignores all later answers, and cancels the attempt. So a waiter that was handed a
//! lock keeps the grant, which counts as soon as enough replicas have it. If the grant were taken
//! back, the lock would be handed through the whole queue, and the queue would be empty. If such a
//! waiter dies, the lock is free after its ttl, as after the death of any holder.

mod quarantine;
mod replication;
mod server;
mod wait_batch;

use std::sync::Arc;

use leasehold_core::{Operation, StoreError};
use redis::Value;

use self::quarantine::Quarantine;
use self::replication::Replication;
pub(crate) use self::server::{Server, ServerDialer};
use crate::store::redis::options::{RedisOptions, Servers};

/// The conditions under which a grant counts.
#[derive(Debug)]
pub(crate) struct Durability {
    quarantine: Option<Quarantine>,
    replication: Option<Replication>,
}

/// The reply of a script, and what the commands that follow it say: an error if a grant may be lost
/// with the primary.
type Judged = Result<(Value, Result<(), StoreError>), StoreError>;

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
