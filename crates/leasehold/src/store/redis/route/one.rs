//! One primary, always at the same address.

use std::sync::Arc;

use leasehold_core::StoreError;
use redis::PushInfo;
use tokio::sync::mpsc::UnboundedSender;

use crate::store::redis::connection::{Link, Links};
use crate::store::redis::dial::Dialer;
use crate::store::redis::url::Address;

/// The way to one primary.
#[derive(Debug)]
pub(in super::super) struct One {
    address: Address,
    dialer: Arc<Dialer>,
    links: Links,
}

impl One {
    pub(super) fn new(dialer: Arc<Dialer>, address: Address) -> Self {
        Self { address, links: Links::new(Arc::clone(&dialer)), dialer }
    }

    pub(super) async fn link(&self) -> Result<Arc<Link>, StoreError> {
        self.links.to(&self.address).await
    }

    pub(super) async fn listen(
        &self,
        pushes: UnboundedSender<PushInfo>,
    ) -> Result<Link, StoreError> {
        self.dialer.dial(&self.address, Some(pushes)).await
    }
}
