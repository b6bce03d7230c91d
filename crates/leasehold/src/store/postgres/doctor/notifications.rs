//! Whether waiters are notified of their turn: a pooler accepts `LISTEN`, but nothing ever arrives.

use std::sync::Arc;

use leasehold_core::{LockName, StoreError};

use crate::store::finding::{Finding, Topic};
use crate::store::postgres::inbox::Inboxes;

/// A name to listen to. Nothing is published under it.
const NAME: &str = "leasehold/doctor";

/// Listens like a waiter, and sends a notification to itself.
pub(super) async fn of_notifications(
    place: &str,
    inboxes: &Arc<Inboxes>,
) -> Result<Finding, StoreError> {
    let topic = Topic(place, "notifications");
    let risk = "waiters ask once a second, so a hand-over may take as long";
    let remedy = "name the server itself by listen=HOST";
    let name = LockName::new(NAME).map_err(|_| StoreError::unknown_request())?;
    Ok(match inboxes.subscribe(&name).await {
        Ok(Some(_)) => topic.ok("notifications arrive, so waiters are woken"),
        Ok(None) => topic.warning("a pooler is in between: no notification arrives", risk, remedy),
        Err(error) => topic.warning(format!("nobody can listen: {error}"), risk, remedy),
    })
}
