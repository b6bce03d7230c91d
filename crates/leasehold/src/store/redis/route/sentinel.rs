//! Whoever is the primary of a service now, as its sentinels say.
//!
//! A connection is used for as long as it lives and its server takes writes, whether or not any
//! sentinel can be reached meanwhile. They are asked for a new one only.

use std::sync::Arc;

use leasehold_core::{Invalid, StoreError, StoreErrorKind};
use redis::{PushInfo, Value};
use tokio::sync::mpsc::UnboundedSender;

use super::evaluate;
use super::finder::Finder;
use super::role::expect_primary;
use crate::store::redis::connection::{Link, Links};
use crate::store::redis::url::{Address, Settings};
use crate::store::redis::wire::Call;

/// How often one call follows the primary elsewhere: 3 times. Each time the new server has just
/// said that it is the primary, so more would mean that roles change faster than one can ask.
const MOVES: u32 = 3;

/// The way to the primary that sentinels name.
#[derive(Debug)]
pub(in super::super) struct Sentinel {
    finder: Arc<Finder>,
    links: Links<Finder>,
}

impl Sentinel {
    pub(super) fn new(
        settings: &Settings,
        sentinels: &[Address],
        service: &str,
    ) -> Result<Self, Invalid> {
        let finder = Arc::new(Finder::new(settings, sentinels, service)?);
        Ok(Self { links: Links::new(Arc::clone(&finder)), finder })
    }

    /// Runs a script on the primary. If the server says that it is none any more, nothing was done,
    /// and the same call goes to the new one.
    pub(super) async fn evaluate(&self, call: &Call) -> Result<Value, StoreError> {
        let mut outcome = Err(changing());
        for _ in 0..MOVES {
            let link = if call.script.is_read_only() {
                self.primary().await?
            } else {
                self.links.to(&()).await?
            };
            outcome = evaluate(&link, call).await;
            match &outcome {
                Err(error) if !error.may_have_executed() && !link.is_alive() => {}
                Ok(_) | Err(_) => break,
            }
        }
        outcome
    }

    /// The connection to a server that has just said that it is the primary.
    ///
    /// A primary that became a replica refuses what writes. But it answers what only reads, out of
    /// a past in which the lock may still be held, and takes messages that nobody hears.
    pub(super) async fn primary(&self) -> Result<Arc<Link>, StoreError> {
        for _ in 0..MOVES {
            let link = self.links.to(&()).await?;
            match expect_primary(&link).await {
                Ok(()) => return Ok(link),
                Err(_) if !link.is_alive() => {}
                Err(error) => return Err(error),
            }
        }
        Err(changing())
    }

    /// Opens a connection for messages to the server that requests go to.
    pub(super) async fn listen(
        &self,
        pushes: UnboundedSender<PushInfo>,
    ) -> Result<Link, StoreError> {
        let primary = self.primary().await?;
        self.finder.dial(primary.address(), Some(pushes)).await
    }
}

fn changing() -> StoreError {
    let why = "the primary changes faster than its sentinels can tell: what does their log say?";
    StoreError::new(StoreErrorKind::Unreachable, why)
}
