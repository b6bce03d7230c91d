//! Ending a wait from another thread.

use futures_util::future::{Either, select};
use leasehold_core::{Error, Result};
use tokio::sync::watch;

/// Ends waits from another thread, such as a thread that waits for signals, or that notices that
/// the caller has gone. Clones end the same waits.
///
/// ```
/// use leasehold::blocking::{Cancel, Client};
/// use leasehold::Error;
///
/// # fn main() -> leasehold::Result<()> {
/// let client = Client::memory();
/// let cancel = Cancel::new();
/// let lock = client.mutex("migrate").cancelled_by(&cancel);
/// let guard = lock.acquire()?;
///
/// let on_sigterm = cancel.clone();
/// let signals = std::thread::spawn(move || on_sigterm.cancel());
/// assert!(matches!(lock.acquire(), Err(Error::Cancelled)));
/// # signals.join().unwrap();
/// guard.release() // what is held stays, until it is let go
/// # }
/// ```
///
/// A signal handler must not call this: have a thread wait for signals.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Sender<bool>);

impl Cancel {
    /// A new canceller, which has not been used yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Ends all waiting calls, and all calls that would wait later, with [`Error::Cancelled`].
    /// Their places in queues are given up in the background. Never blocks.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Runs a call until it ends or is cancelled.
    pub(super) async fn or<T>(&self, verb: impl Future<Output = Result<T>>) -> Result<T> {
        let mut cancelled = self.0.subscribe();
        let cancelled = std::pin::pin!(cancelled.wait_for(|is_cancelled| *is_cancelled));
        match select(cancelled, std::pin::pin!(verb)).await {
            Either::Left(_) => Err(Error::Cancelled),
            Either::Right((done, _)) => done,
        }
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
