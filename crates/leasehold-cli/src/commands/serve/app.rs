//! The state that all requests share.

use std::sync::{Arc, OnceLock};

use leasehold::Client;
use tokio::sync::{Semaphore, broadcast, watch};

use super::access::Access;
use crate::commands::doctor::Checkup;
use crate::store_url::StoreUrl;
use crate::watch::Watcher;

/// How many messages a slow listener may be behind before `resync` makes it read all locks again:
/// some seconds of a busy store.
const BACKLOG: usize = 1024;

/// The most listeners at the same time: 128. Each costs a connection and a write per event.
const MOST_LISTENERS: usize = 128;

/// The store, the picture of it, and the access that requests need.
#[derive(Debug)]
pub(super) struct App {
    pub(super) watcher: Watcher,
    /// The client. Empty until the store was connected to.
    pub(super) client: OnceLock<Client>,
    pub(super) url: StoreUrl,
    pub(super) access: Access,
    /// The last report of the doctor.
    pub(super) report: watch::Sender<Option<Arc<Checkup>>>,
    /// Messages for the listeners, ready to be sent.
    pub(super) messages: broadcast::Sender<Arc<str>>,
    pub(super) listeners: Arc<Semaphore>,
    /// The prefixes of the names that metrics may show.
    pub(super) metrics_names: Vec<String>,
}

impl App {
    pub(super) fn new(
        watcher: Watcher,
        access: Access,
        url: StoreUrl,
        metrics_names: &[String],
    ) -> Self {
        Self {
            watcher,
            client: OnceLock::new(),
            url,
            access,
            report: watch::Sender::new(None),
            messages: broadcast::Sender::new(BACKLOG),
            listeners: Arc::new(Semaphore::new(MOST_LISTENERS)),
            metrics_names: metrics_names.to_vec(),
        }
    }
}
