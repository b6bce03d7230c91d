//! Sessions: how they are opened, their number, and what becomes of those that are given up.
//!
//! All of this runs on the keeper's thread, which lives as long as the process. So an operation
//! works from any runtime, and if its future is dropped, it leaves no transaction open.

pub(crate) mod boot;
pub(crate) mod dial;
mod direct;
pub(crate) mod error;
mod greeting;
mod limited;
mod session;
mod sessions;

use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

pub(crate) use self::sessions::{Sessions, Taken};
use crate::background;
use crate::clock::SystemClock;

/// Does some work on the keeper's thread, even if the caller goes away. The work is boxed, because
/// otherwise the futures of all callers would contain that of the driver.
pub(crate) async fn on_keeper<T: Send + 'static>(
    work: BoxFuture<'static, Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let (sender, receiver) = oneshot::channel();
    let task = async move {
        // The send fails if the caller has given up.
        let _ = sender.send(work.await);
    };
    background::spawn(&SystemClock::new(), Box::pin(task))?;
    receiver.await.unwrap_or_else(|_| {
        let text = "the keeper's thread has ended";
        Err(StoreError::new(StoreErrorKind::Unreachable, text).maybe_executed())
    })
}
