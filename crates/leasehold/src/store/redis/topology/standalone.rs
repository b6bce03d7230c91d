//! One primary, always at the same address.

use std::sync::Arc;

use leasehold_core::StoreError;

use super::pool::Pool;
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::pushes::PushSender;
use crate::store::redis::durability::{Server, ServerDialer};
use crate::store::redis::options::Address;

/// The way to one primary.
#[derive(Debug)]
pub(crate) struct Standalone {
    address: Address,
    dialer: Arc<ServerDialer>,
    pool: Pool<ServerDialer>,
}

impl Standalone {
    pub(super) fn new(dialer: ServerDialer, address: Address) -> Self {
        let dialer = Arc::new(dialer);
        Self { address, pool: Pool::new(Arc::clone(&dialer)), dialer }
    }

    pub(super) async fn server(&self) -> Result<Arc<Server>, StoreError> {
        self.pool.to(&self.address).await
    }

    pub(super) async fn listen(&self, pushes: PushSender) -> Result<Connection, StoreError> {
        self.dialer.dial_for_messages(&self.address, pushes).await
    }
}
